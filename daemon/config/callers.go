package config

import (
	"slices"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
)

// localCode is the caller of the older auth.local_api_key; statistics of older systems use it.
const localCode = "(default)"

type callerDraft struct {
	at               value
	code, key, group str
	models           []string
	expires          time.Time
	addresses        auth.Addresses
	limits           auth.Limits
}

type groupDraft struct {
	at    value
	name  str
	keys  []str
	tiers []str
}

func eachCaller(f *file) reader {
	return func(d *decoder, v value) {
		if d.is(v, kindObject) {
			c := &callerDraft{at: v}
			d.object(v, callerFields(c))
			f.callers = append(f.callers, c)
		}
	}
}

func eachGroup(f *file) reader {
	return func(d *decoder, v value) {
		if d.is(v, kindObject) {
			g := &groupDraft{at: v}
			d.object(v, groupFields(g))
			f.groups = append(f.groups, g)
		}
	}
}

// patterns reads globs: * matches anything, everything else itself.
func patterns(to *[]string) reader {
	return func(d *decoder, v value) {
		d.needsItem(v, kindList, "no model would be allowed; leave it out to allow all")
		texts(to, notEmpty)(d, v)
	}
}

// expiry reads a day, valid to its end by the local calendar, or a time.
func expiry(to *time.Time) reader {
	return func(d *decoder, v value) {
		s, ok := d.str(v)
		if !ok {
			return
		}
		if day, err := time.Parse(time.DateOnly, s.text); err == nil {
			y, m, d := day.Date()
			*to = pool.NextDay(time.Date(y, m, d, 12, 0, 0, 0, time.Local)) // a day may lack its midnight, or have it twice
		} else if at, err := time.Parse(time.RFC3339, s.text); err == nil {
			*to = at
		} else {
			d.fail(v, "must be a day (2027-01-31) or a time (2027-01-31T18:00:00+01:00)%s", d.unset(v))
		}
	}
}

// addresses reads addresses and ranges.
func addresses(to *auth.Addresses) reader {
	return func(d *decoder, v value) {
		*to = auth.Addresses{}
		d.list(v, func(item value) {
			s, ok := d.str(item)
			if !ok {
				return
			}
			p, err := auth.ParseAddresses(s.text)
			if err != nil {
				d.fail(item, "must be an address (192.0.2.7, 2001:db8::7) or a range (192.0.2.0/24, 2001:db8::/32): %v%s", err, d.unset(item))
				return
			}
			*to = append(*to, p)
		})
	}
}

// someAddresses reads a list that must not be empty.
func someAddresses(to *auth.Addresses) reader {
	return func(d *decoder, v value) {
		d.needsItem(v, kindList, "the key could be used nowhere; leave it out to allow any address")
		addresses(to)(d, v)
	}
}

// callers turns groups and request keys into options.
func (d *decoder) callers(c *Config, f *file) {
	groups := d.groups(c, f)
	codes, secrets := make(map[string]value), make(map[string]value)
	for _, k := range f.callers {
		if d.require(k.code.value, k.at, "code") {
			d.code(k.code, codes)
		}
		if d.require(k.key.value, k.at, "api_key") {
			d.requestKey(k.key, secrets)
		}
		if k.group.given() && groups[k.group.text] == nil {
			d.fail(k.group.value, "unknown group%s%s", didYouMean(k.group.text, names(f.groups)), d.unset(k.group.value))
		}
		c.Auth.RequestKeys = append(c.Auth.RequestKeys, auth.RequestKey{
			Code: k.code.text, Key: auth.NewSecret(trimKey(k.key.text)), Group: k.group.text, Models: k.models, Expires: k.expires,
			Addresses: k.addresses, Limits: k.limits,
		})
	}
	if f.adminKey.text != "" {
		d.requestKey(f.adminKey, secrets)
		c.Auth.AdminKey = auth.NewSecret(trimKey(f.adminKey.text))
	}
	if f.localKey.given() {
		d.requestKey(f.localKey, secrets)
		c.Auth.RequestKeys = append(c.Auth.RequestKeys, auth.RequestKey{Code: localCode, Key: auth.NewSecret(trimKey(f.localKey.text))})
		d.warn(f.localKey.value, `older form, still read, its caller is "%s"; write "request_keys": [{"code": "default", "api_key": "***"}]`, localCode)
	}
}

func (d *decoder) code(s str, codes map[string]value) {
	before, taken := codes[s.text]
	switch wrong := label(s.text); {
	case wrong != "":
		d.fail(s.value, "%s", wrong)
	case strings.HasPrefix(s.text, "("): // (default), (anonymous)
		d.fail(s.value, "must not begin with a parenthesis: such codes are reserved, %s for `auth.local_api_key`", localCode)
	case taken:
		d.fail(s.value, "duplicate code; first in line %d", before.at.line)
	default:
		codes[s.text] = s.value
	}
}

// requestKey refuses a key that is empty or open to guessing: whoever shows nothing would be let in.
func (d *decoder) requestKey(s str, secrets map[string]value) {
	secret := trimKey(s.text)
	before, taken := secrets[secret]
	switch wrong := notEmpty(secret); {
	case d.unset(s.value) != "":
		d.fail(s.value, "a request key must be complete%s", d.unset(s.value))
	case wrong != "":
		d.fail(s.value, "%s", wrong)
	case taken:
		d.fail(s.value, "the same key as in line %d", before.at.line)
	default:
		secrets[secret] = s.value
	}
}

// groups turns groups into options and returns them by name.
func (d *decoder) groups(c *Config, f *file) map[string]*groupDraft {
	groups := make(map[string]*groupDraft)
	for _, g := range f.groups {
		if d.require(g.name.value, g.at, "name") {
			if wrong := label(g.name.text); wrong != "" {
				d.fail(g.name.value, "%s", wrong)
			} else if before := groups[g.name.text]; before != nil {
				d.fail(g.name.value, "duplicate group; first in line %d", before.name.at.line)
			} else {
				groups[g.name.text] = g
			}
		}
		group := auth.Group{Name: g.name.text}
		for _, s := range g.keys {
			if d.known(s, f.keys) {
				group.Keys = append(group.Keys, s.text)
			}
		}
		for _, s := range g.tiers {
			group.Keys = append(group.Keys, d.keysOf(s, f)...)
		}
		if len(g.keys)+len(g.tiers) == 0 {
			d.fail(g.at, "a group needs `keys` or `tiers`: without any it lets nobody in")
		}
		slices.Sort(group.Keys)
		group.Keys = slices.Compact(group.Keys)
		c.Auth.Groups = append(c.Auth.Groups, group)
	}
	return groups
}

// keysOf returns the ids of a tier's keys.
func (d *decoder) keysOf(s str, f *file) (ids []string) {
	for _, t := range f.tiers {
		if t.name.text != s.text {
			continue
		}
		for _, k := range t.keys {
			ids = append(ids, k.id.text)
		}
		return ids
	}
	d.fail(s.value, "unknown tier%s%s", didYouMean(s.text, tierNames(f.tiers)), d.unset(s.value))
	return nil
}

// known reports an id that no pool key has.
func (d *decoder) known(s str, keys []*keyDraft) bool {
	var ids []string
	for _, k := range keys {
		if k.id.text == s.text {
			return true
		}
		ids = append(ids, k.id.written())
	}
	d.fail(s.value, "unknown key%s%s", didYouMean(s.text, ids), d.unset(s.value))
	return false
}

// names lists groups as the file writes them.
func names(groups []*groupDraft) []string {
	var list []string
	for _, g := range groups {
		list = append(list, g.name.written())
	}
	return list
}

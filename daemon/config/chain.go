package config

import (
	"bytes"
	"iter"
	"slices"
	"strconv"
	"strings"
)

// The older form of reference 1, the chain of four fixed tiers (facts/reference-chain.md, 2.3), is rewritten as a tree of
// today's form, which is then read like any other: what is wrong in it is reported at its place in the file.

// chainSections are the sections that only this form has.
func chainSections() []string {
	return []string{"primary", "anthropic", "copilot", "antigravity", "fallback", "zhipu",
		"circuit_breaker", "copilot_circuit_breaker", "antigravity_circuit_breaker",
		"quota_guard", "copilot_quota_guard", "antigravity_quota_guard", "database", "logging"}
}

// chain is a file of this form being rewritten.
type chain struct {
	d         *decoder
	root      *node
	out       *node
	longest   float64 // of the timeouts, in seconds
	longestAt *node
}

// modernize returns the file in today's form; a file without sections of the older one comes back as it is.
func (d *decoder) modernize(root *node) *node {
	first := slices.IndexFunc(root.members, func(m member) bool { return slices.Contains(chainSections(), m.name) })
	if root.kind != kindObject || first < 0 {
		return root
	}
	at := root.members[first]
	for _, name := range []string{"pool", "tiers", "upstreams"} {
		if root.get(name) != nil {
			d.problem(at.at, at.name, "older form, cannot stand beside `%s`: %s", name, insteadOf(at.name))
			return root.without(chainSections()...)
		}
	}
	c := &chain{d: d, root: root, out: &node{at: root.at, kind: kindObject}}
	c.copySections()
	tiers, keys := c.tiers()
	if c.longestAt != nil && root.get("timeouts") == nil {
		c.out.add(c.longestAt.at, "timeouts", object(c.longestAt.at,
			"first_byte_seconds", secondsNode(c.longestAt.at, c.longest), "first_byte_nonstream_seconds", secondsNode(c.longestAt.at, c.longest),
			"idle_seconds", secondsNode(c.longestAt.at, c.longest)))
	}
	c.out.add(at.at, "tiers", tiers)
	c.out.add(at.at, "pool", object(at.at, "strategy", textNode(at.at, "fill-first"), "keys", keys))
	var form bytes.Buffer
	writeNode(&form, c.out, "", false)
	d.warn(value{&node{at: at.at}, at.name, at.at}, "older form, still read; write %s", form.String())
	return c.out
}

// insteadOf says what today's form has for a section.
func insteadOf(section string) string {
	switch section {
	case "logging":
		return "write `log`"
	case "database":
		return "leave it out, what was used is in server.data_dir"
	}
	return "write a tier and a key there"
}

// copySections takes over what both forms have.
func (c *chain) copySections() {
	for _, m := range c.root.members {
		switch {
		case m.name == "auth" && m.value.kind == kindObject:
			if rest := m.value.without("github_client_id", "google_client_id", "google_client_secret", "token_store_path"); len(rest.members) > 0 {
				c.out.members = append(c.out.members, member{m.at, m.name, rest})
			}
		case m.name == "database":
			c.d.warn(value{m.value, m.name, m.at}, "is ignored: what was used is in the data directory (server.data_dir)")
		case m.name == "logging":
			if m.value.kind == kindObject {
				c.out.add(m.at, "log", c.logging(m.value))
			}
		case m.name == "model_mapping" || slices.Contains(chainSections(), m.name):
		default:
			c.out.members = append(c.out.members, m)
		}
	}
}

// logging takes level and file; sizes and numbers of log files are fixed today.
func (c *chain) logging(old *node) *node {
	log := &node{at: old.at, kind: kindObject}
	for _, m := range old.members {
		switch m.name {
		case "max_bytes", "backup_count":
		case "level":
			log.add(m.at, m.name, levelOf(m.value))
		case "file":
			if m.value.kind != kindNull {
				log.members = append(log.members, m)
			}
		default:
			log.members = append(log.members, m)
		}
	}
	return log
}

// levelOf takes the names of Python's levels that are not ours.
func levelOf(n *node) *node {
	switch {
	case n.kind == kindString && strings.EqualFold(n.text, "warning"):
		return textNode(n.at, "warn")
	case n.kind == kindString && strings.EqualFold(n.text, "critical"):
		return textNode(n.at, "error")
	}
	return n
}

// section returns a section by its two names, as the object it must be.
func (c *chain) section(names ...string) (found *node) {
	for _, name := range names {
		switch n := c.root.get(name); {
		case n == nil:
		case found != nil:
			c.d.fail(value{n, name, n.at}, "is another name of `%s`, which is there too", names[0])
		case n.kind != kindObject:
			c.d.fail(value{n, name, n.at}, "must be an object, not %s", n.kind)
		default:
			found = n
		}
	}
	return found
}

// enabled reports whether a section is on, and reports its unknown fields.
func (c *chain) enabled(n *node, path string, byDefault bool, fields ...string) bool {
	on := byDefault
	if n == nil {
		return on
	}
	longest, longestAt := c.longest, c.longestAt
	for _, m := range n.members {
		v := value{m.value, fieldPath(path, m.name), m.at}
		switch {
		case m.name == "enabled":
			boolean(&on)(c.d, v)
		case m.name == "timeout_ms":
			var ms float64
			if number(&ms, 1, float64(maxSeconds.Milliseconds()))(c.d, v); ms/1000 > longest {
				longest, longestAt = ms/1000, m.value
			}
		case !slices.Contains(fields, m.name):
			c.d.problem(m.at, v.path, "unknown field%s", didYouMean(m.name, append(fields, "enabled", "timeout_ms")))
		}
	}
	if on {
		c.longest, c.longestAt = longest, longestAt
	}
	return on
}

// tiers builds the tiers that are on and their keys, in the fixed order of the form.
func (c *chain) tiers() (tiers, keys *node) {
	tiers, keys = &node{at: c.root.at, kind: kindList}, &node{at: c.root.at, kind: kindList}
	if primary := c.section("primary", "anthropic"); c.enabled(primary, "primary", true, "base_url") {
		at := placeOf(primary, c.root)
		tier := object(at, "name", textNode(at, "anthropic"))
		if b := c.section("circuit_breaker"); b != nil {
			tier.add(b.at, "circuit_breaker", b)
		} else {
			tier.add(at, "circuit_breaker", &node{at: at, kind: kindObject})
		}
		if g := c.guard("quota_guard"); g != nil {
			tier.add(g.at, "quota_guard", g)
		}
		key := object(at, "id", textNode(at, "anthropic"), "tier", textNode(at, "anthropic"), "provider", textNode(at, "anthropic"), "credential", textNode(at, passthrough))
		key.take(primary, "base_url")
		tiers.items, keys.items = append(tiers.items, tier), append(keys.items, key)
	}
	for name, fields := range c.signedIn() {
		if n := c.section(name); c.enabled(n, name, false, memberNames(n)...) { // it has members that mean nothing today
			tier := object(n.at, "name", textNode(n.at, name))
			if b := c.section(name + "_circuit_breaker"); b != nil {
				tier.add(b.at, "circuit_breaker", b)
			} else {
				tier.add(n.at, "circuit_breaker", &node{at: n.at, kind: kindObject})
			}
			if g := c.guard(name + "_quota_guard"); g != nil {
				tier.add(g.at, "quota_guard", g)
			}
			key := object(n.at, "id", textNode(n.at, name), "tier", textNode(n.at, name), "provider", textNode(n.at, name))
			for _, f := range fields {
				key.takeAs(n, f[0], f[1])
			}
			tiers.items, keys.items = append(tiers.items, tier), append(keys.items, key)
		}
	}
	fallback := c.section("fallback", "zhipu")
	if m := c.root.get("model_mapping"); m != nil && fallback == nil {
		c.d.warn(value{m, "model_mapping", m.at}, "is ignored: in this form it is for the fallback tier, and there is none")
	}
	if fallback != nil && c.enabled(fallback, "fallback", true, "base_url", "api_key") {
		at := fallback.at
		tiers.items = append(tiers.items, object(at, "name", textNode(at, "zhipu"), "model_mapping", c.mapping(at), "default_model", textNode(at, "glm-5.1")))
		key := object(at, "id", textNode(at, "zhipu"), "tier", textNode(at, "zhipu"), "provider", textNode(at, "zhipu"))
		key.take(fallback, "api_key")
		key.take(fallback, "base_url")
		keys.items = append(keys.items, key)
	}
	return tiers, keys
}

// signedIn yields the sections of providers with a sign-in of their own, in the order of the chain: their fields' names, then
// and now.
func (c *chain) signedIn() iter.Seq2[string, [][2]string] {
	return func(yield func(string, [][2]string) bool) {
		_ = yield("copilot", [][2]string{{"github_token", "github_token"}, {"token_url", "token_url"}, {"account_type", "account_type"}, {"base_url", "base_url"}}) &&
			yield("antigravity", [][2]string{{"client_id", "client_id"}, {"client_secret", "client_secret"}, {"refresh_token", "refresh_token"},
				{"base_url", "base_url"}, {"model_endpoint", "model_endpoint"}, {"project_id", "project"}})
	}
}

// guard returns a quota guard that is on.
func (c *chain) guard(name string) *node {
	g := c.section(name)
	if g == nil {
		return nil
	}
	on := false
	if n := g.get("enabled"); n != nil {
		boolean(&on)(c.d, value{n, name + ".enabled", n.at})
	}
	if !on {
		return nil
	}
	return g.without("enabled")
}

// mapping returns the rules of the last tier: the file's, as far as they are for it, or the defaults of the older program.
func (c *chain) mapping(at position) *node {
	given := c.root.get("model_mapping")
	if given == nil {
		list := &node{at: at, kind: kindList}
		for _, r := range presets()["zhipu"].mapping {
			list.items = append(list.items, object(at, "pattern", textNode(at, r.Pattern), "target", textNode(at, r.Target)))
		}
		return list
	}
	list := &node{at: given.at, kind: given.kind, text: given.text, members: given.members}
	for _, item := range given.items {
		if forLast(item) {
			list.items = append(list.items, item.without("vendors", "backends"))
		}
	}
	return list
}

// forLast reports whether a rule is one of the last tier: it names that, or nobody.
func forLast(rule *node) bool {
	for _, name := range []string{"vendors", "backends"} {
		if n := rule.get(name); n != nil && len(n.items) > 0 {
			return slices.ContainsFunc(n.items, func(v *node) bool { return v.text == "zhipu" || v.text == "fallback" })
		}
	}
	return true
}

func placeOf(n, otherwise *node) position {
	if n == nil {
		return otherwise.at
	}
	return n.at
}

// The tree, as far as a rewrite needs it.

func (n *node) get(name string) *node {
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// without is the object less some members; other values come back as they are.
func (n *node) without(names ...string) *node {
	if n.kind != kindObject {
		return n
	}
	out := *n
	out.members = slices.DeleteFunc(slices.Clone(n.members), func(m member) bool { return slices.Contains(names, m.name) })
	return &out
}

func (n *node) add(at position, name string, v *node) {
	n.members = append(n.members, member{at, name, v})
}

// take copies a member if it is there.
func (n *node) take(from *node, name string) {
	if from == nil {
		return
	}
	for _, m := range from.members {
		if m.name == name {
			n.members = append(n.members, m)
		}
	}
}

// takeAs takes a member of another object under today's name, unless it says nothing.
func (n *node) takeAs(from *node, then, now string) {
	for _, m := range from.members {
		if m.name == then && m.value.kind != kindNull && (m.value.kind != kindString || m.value.text != "") {
			n.add(m.at, now, m.value)
		}
	}
}

func memberNames(n *node) (list []string) {
	if n != nil {
		for _, m := range n.members {
			list = append(list, m.name)
		}
	}
	return list
}

// object makes an object of names and values in turn.
func object(at position, pairs ...any) *node {
	n := &node{at: at, kind: kindObject}
	for i := 0; i < len(pairs); i += 2 {
		n.add(at, pairs[i].(string), pairs[i+1].(*node))
	}
	return n
}

func textNode(at position, s string) *node { return &node{at: at, kind: kindString, text: s} }

func secondsNode(at position, s float64) *node {
	return &node{at: at, kind: kindNumber, text: strconv.FormatFloat(s, 'f', -1, 64)}
}

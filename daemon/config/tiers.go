package config

import (
	"errors"
	"regexp/syntax"
	"time"

	"coding-proxy/pool"
)

// tierName is the one tier where the file has none.
const tierName = "default"

// tierDraft is a tier as the file has it; its keys come from pool.keys.
type tierDraft struct {
	at           value
	name         str
	rules        pool.Tier
	mapping      []ruleDraft
	defaultModel str
	keys         []*keyDraft
}

// ruleDraft is an entry of a model_mapping.
type ruleDraft struct {
	at              value
	pattern, target str
	isRegex         bool
}

func eachTier(f *file) reader {
	return func(d *decoder, v value) {
		if d.is(v, kindObject) {
			t := &tierDraft{at: v}
			d.object(v, tierFields(t))
			f.tiers = append(f.tiers, t)
		}
	}
}

func tierFields(t *tierDraft) []field {
	return []field{
		{"name", keep(&t.name)},
		{"strategy", choice(&t.rules.Strategy, pool.Strategies()...)},
		{"tier_return", choice(&t.rules.Return, pool.TierReturns()...)},
		{"circuit_breaker", breaker(&t.rules.Breaker)},
		{"quota_guard", guard(&t.rules.Guard)},
		{"model_mapping", list(eachRule(&t.mapping))},
		{"default_model", keep(&t.defaultModel)},
	}
}

func breaker(to **pool.BreakerOptions) reader {
	return func(d *decoder, v value) {
		o := pool.DefaultBreaker()
		d.object(v, breakerFields(&o))
		if d.seen[v.path+".max_recovery_seconds"].given() && o.MaxRecovery < o.Recovery {
			d.fail(d.seen[v.path+".max_recovery_seconds"], "must not be less than recovery_timeout_seconds (%v)", o.Recovery.Seconds())
		}
		*to = &o
	}
}

func breakerFields(o *pool.BreakerOptions) []field {
	some := func(to *time.Duration) reader { return duration(to, time.Second, time.Millisecond, maxSeconds) }
	return []field{
		{"failure_threshold", integer(&o.FailureThreshold, 1, maxCount)},
		{"recovery_timeout_seconds", some(&o.Recovery)},
		{"success_threshold", integer(&o.SuccessThreshold, 1, maxCount)},
		{"max_recovery_seconds", some(&o.MaxRecovery)},
	}
}

func guard(to **pool.GuardOptions) reader {
	return func(d *decoder, v value) {
		o := pool.DefaultGuard()
		d.object(v, guardFields(&o))
		*to = &o
	}
}

func guardFields(o *pool.GuardOptions) []field {
	return []field{
		{"token_budget", integer(&o.Budget, 0, maxTokens)},
		{"window_hours", duration(&o.Window, time.Hour, time.Minute, maxWindow)},
		{"weekly_token_budget", integer(&o.WeeklyBudget, 0, maxTokens)},
		{"threshold_percent", number(&o.Threshold, 1, 100)},
		{"probe_interval_seconds", duration(&o.ProbeInterval, time.Second, time.Millisecond, maxSeconds)},
	}
}

func eachRule(to *[]ruleDraft) reader {
	return func(d *decoder, v value) {
		if d.is(v, kindObject) {
			r := ruleDraft{at: v}
			d.object(v, ruleFields(&r))
			*to = append(*to, r)
		}
	}
}

func ruleFields(r *ruleDraft) []field {
	return []field{
		{"pattern", keep(&r.pattern)},
		{"target", keep(&r.target)},
		{"is_regex", boolean(&r.isRegex)},
	}
}

// mapping compiles the rules and the name for what they do not map.
func (d *decoder) mapping(drafts []ruleDraft, rest str) *pool.Mapping {
	if len(drafts) == 0 && !rest.given() {
		return nil
	}
	var rules []pool.MappingRule
	for _, r := range drafts {
		if d.rule(r) {
			rules = append(rules, pool.MappingRule{Pattern: r.pattern.text, Target: r.target.text, IsRegex: r.isRegex})
		}
	}
	if rest.given() {
		d.targetName(rest)
	}
	m, err := pool.NewMapping(rules, rest.text)
	if err != nil { // rule has compiled each
		d.fail(rest.value, "%v", err)
	}
	return m
}

// rule checks one entry; errors of the compiler repeat the pattern, so only their kind is told.
func (d *decoder) rule(r ruleDraft) bool {
	ok := d.require(r.pattern.value, r.at, "pattern")
	if ok {
		wrong := notEmpty(r.pattern.text)
		if wrong == "" && r.isRegex {
			wrong = regexFault(r.pattern.text)
		}
		if ok = wrong == ""; !ok {
			d.fail(r.pattern.value, "%s%s", wrong, d.unset(r.pattern.value))
		}
	}
	return d.require(r.target.value, r.at, "target") && d.targetName(r.target) && ok
}

func (d *decoder) targetName(s str) bool {
	wrong := modelTarget("", s.text)
	if wrong != "" {
		d.fail(s.value, "%s%s", wrong, d.unset(s.value))
	}
	return wrong == ""
}

func regexFault(pattern string) string {
	var wrong *syntax.Error
	switch _, err := pool.NewMapping([]pool.MappingRule{{Pattern: pattern, IsRegex: true}}, ""); {
	case errors.As(err, &wrong):
		return "is no regular expression: " + wrong.Code.String()
	case err != nil:
		return "is no regular expression"
	}
	return ""
}

// tiers settles the tiers and gives each its keys.
func (d *decoder) tiers(f *file) []*tierDraft {
	section := d.seen["tiers"]
	if !section.given() {
		for _, k := range f.keys {
			if k.tier.given() {
				d.fail(k.tier.value, "there is no tier of this name: the file has no `tiers`")
			}
		}
		return []*tierDraft{{name: str{text: tierName}, rules: pool.Tier{Strategy: f.strategy, Return: f.tierReturn}, keys: f.keys}}
	}
	d.needsItem(section, kindList, "leave it out to have one tier")
	byName := map[string]*tierDraft{}
	for _, t := range f.tiers {
		if t.rules.Strategy == "" {
			t.rules.Strategy = f.strategy
		}
		if t.rules.Return == "" {
			t.rules.Return = f.tierReturn
		}
		if !d.require(t.name.value, t.at, "name") {
			continue
		}
		before, taken := byName[t.name.text]
		switch wrong := label(t.name.text); {
		case wrong != "":
			d.fail(t.name.value, "%s%s", wrong, d.unset(t.name.value))
		case taken:
			d.fail(t.name.value, "duplicate tier; first in line %d", before.name.at.line)
		default:
			byName[t.name.text] = t
		}
	}
	for _, k := range f.keys {
		if !d.require(k.tier.value, k.at, "tier") {
			continue
		}
		t := byName[k.tier.text]
		if t == nil {
			d.fail(k.tier.value, "unknown tier%s%s", didYouMean(k.tier.text, tierNames(f.tiers)), d.unset(k.tier.value))
			continue
		}
		t.keys = append(t.keys, k)
	}
	for _, t := range f.tiers {
		if len(t.keys) == 0 && byName[t.name.text] == t {
			d.warn(t.at, "no key of `pool.keys` is in this tier: it is passed over")
		}
	}
	return f.tiers
}

// tierNames lists tiers as the file writes them.
func tierNames(tiers []*tierDraft) []string {
	var list []string
	for _, t := range tiers {
		list = append(list, t.name.written())
	}
	return list
}

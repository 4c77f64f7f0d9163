package pool

import (
	"fmt"
	"regexp"
	"strings"
)

// MappingRule maps the model names that its pattern takes to one name.
type MappingRule struct {
	Pattern string // an exact name; with * a glob; with IsRegex a regular expression that must match the whole name
	Target  string
	IsRegex bool
}

// Mapping maps model names: exact rules first, then globs and regular expressions in their order, then a default. It
// never changes; nil maps nothing.
type Mapping struct {
	exact    map[string]string
	names    []string // of exact, in order
	patterns []pattern
	rest     string
}

// pattern is a regular expression, or a glob as the parts between its stars.
type pattern struct {
	regex  *regexp.Regexp
	glob   []string
	target string
}

func (p *pattern) match(name string) bool {
	if p.regex != nil {
		return p.regex.MatchString(name)
	}
	return matchGlob(p.glob, name)
}

// NewMapping compiles rules; rest is the target of all other names, "" for none. Errors are of a regular expression
// that cannot be compiled, and name its rule by index.
func NewMapping(rules []MappingRule, rest string) (*Mapping, error) {
	m := &Mapping{exact: map[string]string{}, rest: rest}
	for i, r := range rules {
		switch {
		case r.IsRegex:
			if _, err := regexp.Compile(r.Pattern); err != nil { // a)|(b would be one inside of other parentheses
				return nil, fmt.Errorf("rule %d: %w", i, err)
			}
			re, err := regexp.Compile("^(?:" + r.Pattern + ")$")
			if err != nil {
				return nil, fmt.Errorf("rule %d: %w", i, err)
			}
			m.patterns = append(m.patterns, pattern{regex: re, target: r.Target})
		case strings.Contains(r.Pattern, "*"):
			m.patterns = append(m.patterns, pattern{glob: strings.Split(r.Pattern, "*"), target: r.Target})
		default:
			if _, twice := m.exact[r.Pattern]; !twice { // the first one written counts
				m.exact[r.Pattern] = r.Target
				m.names = append(m.names, r.Pattern)
			}
		}
	}
	return m, nil
}

// Map returns the name that stands for the given one; ok is false when the mapping says nothing of it.
func (m *Mapping) Map(name string) (target string, ok bool) {
	if m == nil {
		return "", false
	}
	if target, ok := m.exact[name]; ok {
		return target, true
	}
	for i := range m.patterns {
		if p := &m.patterns[i]; p.match(name) {
			return p.target, true
		}
	}
	return m.rest, m.rest != ""
}

// matchGlob reports whether name is the parts with any text between them.
func matchGlob(parts []string, name string) bool {
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[last])
}

// Resolve returns the resolved name of a requested model.
func (p *Pool) Resolve(model string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resolve(model)
}

func (p *Pool) resolve(model string) string {
	if target, ok := p.opt.Mapping.Map(model); ok {
		return target
	}
	return model
}

// serves returns the upstream's name for a resolved model; ok is false when the key does not serve it.
func (t *tier) serves(k *key, model string) (upstream string, ok bool) {
	switch {
	case k.Models != nil:
		return k.mapped(model)
	case t.Mapping != nil:
		return t.Mapping.Map(model)
	}
	if target, ok := k.Preset.Map(model); ok {
		return target, true
	}
	return model, true
}

// mapped looks the model up in the key's own list.
func (k *key) mapped(model string) (upstream string, ok bool) {
	if m, ok := k.Models[model]; ok {
		return m, true
	}
	switch m, ok := k.Models["*"]; {
	case !ok:
		return "", false
	case m == "" || m == "*":
		return model, true
	default:
		return m, true
	}
}

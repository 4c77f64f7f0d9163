package copilot

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// maxName bounds the names that are kept for people.
const maxName = 200

// resolution is how the last model was found, for diagnostics.
type resolution struct{ requested, resolved, protocol string }

// identity is a model's name taken apart: "claude-sonnet-4-5-20250929" and "claude-sonnet-4.5" are the same.
type identity struct {
	family  string // the words: claude sonnet, gpt codex, gpt mini
	version []int
	variant string // of the same model: fast, thinking …
}

// identify takes a name apart. Providers before it ("anthropic/"), marks behind it ("@20250929", "[1m]", ":latest") and dates
// are no part of it.
func identify(name string) identity {
	name = strings.ToLower(name[strings.LastIndex(name, "/")+1:])
	name, _, _ = strings.Cut(name, "@")
	name, _, _ = strings.Cut(name, "[")
	name, _, _ = strings.Cut(name, ":")
	var words, variant []string
	id := identity{}
	dated := false
	for _, w := range strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == '_' || r == ' ' }) {
		numbers, ok := versionOf(w)
		switch {
		case ok && len(w) >= 4 && !strings.Contains(w, "."):
			dated = true // 20250929, 0613, or the year of 2024-08-06
		case ok && dated: // month and day
		case ok:
			id.version = append(id.version, numbers...)
		case w == "latest", w == "preview":
		case slices.Contains([]string{"fast", "thinking", "thought", "1m"}, w):
			variant = append(variant, w)
		default:
			words = append(words, w)
		}
	}
	for len(id.version) > 1 && id.version[len(id.version)-1] == 0 {
		id.version = id.version[:len(id.version)-1]
	}
	id.family, id.variant = strings.Join(words, " "), strings.Join(variant, " ")
	return id
}

// versionOf reads 4, 4.5 and the like.
func versionOf(word string) (numbers []int, ok bool) {
	for part := range strings.SplitSeq(word, ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, false
		}
		numbers = append(numbers, int(n))
	}
	return numbers, true
}

func (id *identity) major() int {
	if len(id.version) == 0 {
		return -1
	}
	return id.version[0]
}

// normal is the name as Copilot writes it: claude-sonnet-4.5, but claude-3.7-sonnet before version 4. Of other providers
// the names are the same everywhere.
func normal(name string) string {
	id := identify(name)
	kind, isClaude := strings.CutPrefix(id.family, "claude ")
	if !isClaude || len(id.version) == 0 {
		return name[strings.LastIndex(name, "/")+1:]
	}
	numbers := make([]string, len(id.version))
	for i, n := range id.version {
		numbers[i] = strconv.Itoa(n)
	}
	parts := []string{"claude", kind, strings.Join(numbers, ".")}
	if id.version[0] < 4 {
		parts[1], parts[2] = parts[2], parts[1]
	}
	if id.variant != "" {
		parts = append(parts, id.variant)
	}
	return strings.ReplaceAll(strings.Join(parts, "-"), " ", "-")
}

// resolve finds a model in the list: by its name, as the same model under another name, by family and major version, by
// family; the highest version wins. Another family is never taken: then it is the name as Copilot would write it, and nil.
func resolve(list []Model, name string) (string, *Model) {
	for i := range list {
		if list[i].ID == name {
			return name, &list[i]
		}
	}
	want := identify(name)
	var best *Model
	var bestRank [3]int
	var bestID identity
	for i := range list {
		m := &list[i]
		id := identify(m.ID)
		if m.Disabled || id.family != want.family || id.variant != "" && id.variant != want.variant {
			continue
		}
		rank := [3]int{0, 0, 0}
		switch {
		case slices.Equal(id.version, want.version):
			rank[0] = 2
		case id.major() == want.major():
			rank[0] = 1
		}
		if id.variant == want.variant {
			rank[1] = 1
		}
		rank[2] = -len(m.ID) // of two names of the same, the plain one
		byVersion := slices.Compare(id.version, bestID.version)
		if best == nil || cmp.Or(cmp.Compare(rank[0], bestRank[0]), byVersion, cmp.Compare(rank[1], bestRank[1]), cmp.Compare(rank[2], bestRank[2])) > 0 {
			best, bestRank, bestID = m, rank, id
		}
	}
	if best == nil {
		return normal(name), nil
	}
	return best.ID, best
}

// endpoints are the paths as the list of models has them, in the order in which a client of another dialect is served: the
// one that can say most comes first.
var endpoints = [...]struct{ dialect, path string }{
	{anthropic, "/v1/messages"}, {openAIResponses, "/responses"}, {openAIChat, "/chat/completions"},
}

// endpointFor names the dialect in which a model is asked: the client's own where the model has it.
func endpointFor(m *Model, name, dialect string) string {
	if m != nil {
		first := ""
		for _, e := range endpoints {
			if !slices.Contains(m.Endpoints, e.path) {
				continue
			}
			if e.dialect == dialect {
				return dialect
			}
			if first == "" {
				first = e.dialect
			}
		}
		if first != "" {
			return first
		}
	}
	return byFamily(name)
}

// byFamily is where a family is served when the list does not say it.
func byFamily(name string) string {
	id := identify(name)
	words := strings.Fields(id.family)
	switch {
	case slices.Contains(words, "claude"):
		return anthropic
	case slices.Contains(words, "codex"), len(words) > 0 && words[0] == "gpt" && id.major() >= 5:
		return openAIResponses
	}
	return openAIChat
}

// serving are the models that can be asked in a dialect.
func serving(list []Model, dialect string) []Model {
	var out []Model
	for i := range list {
		if endpointFor(&list[i], list[i].ID, dialect) == dialect {
			out = append(out, list[i])
		}
	}
	return out
}

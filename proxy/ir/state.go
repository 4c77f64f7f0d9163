package ir

import (
	"encoding/base64"
	"strconv"
	"strings"
)

// State is opaque state of a provider: a signature of reasoning or of a call, encrypted or redacted reasoning. It goes
// back to its owner alone.
type State struct {
	// Owner names who made it: the Owner of Source and Target. "" is a state that the client got from a provider of its
	// own dialect, without us: no conversion can use it.
	Owner string
	Data  string // what the owner gave; "" for reasoning that came unsigned
	// Redacted says that Data stands for the reasoning itself (Anthropic's redacted_thinking).
	Redacted bool
	// Attach says to what the state belongs where a dialect must carry it in a block of reasoning of its own.
	Attach Attach
}

// Attach is the kind of block that a state belongs to.
type Attach uint8

// The kinds.
const (
	AttachSelf   Attach = iota // the reasoning that carries it
	AttachCall                 // the ToolCall that follows (Gemini signs calls)
	AttachBefore               // the reasoning before the ToolCall that carries it: see Before
)

// SealPrefix begins every sealed state. Sealed states are valid base64, as Gemini's clients want it.
const SealPrefix = "Y3Byb3h5LzE6" // base64 of sealMagic

const sealMagic = "cproxy/1:" // nine bytes: its base64 stands apart from what follows

// Seal packs a state into text that a client keeps and sends back in a place that its dialect has for opaque state.
func Seal(s State) string {
	b := make([]byte, 0, len(sealMagic)+2+len(s.Owner)+1+len(s.Data))
	b = append(b, sealMagic...)
	flags := byte('0') + byte(s.Attach)<<1
	if s.Redacted {
		flags |= 1
	}
	b = append(b, flags)
	b = append(b, s.Owner...)
	b = append(b, '\n')
	b = append(b, s.Data...)
	return base64.StdEncoding.EncodeToString(b)
}

// Unseal unpacks what Seal packed. Anything else is a state that a provider of the client's own dialect has given: it
// comes back with an empty owner.
func Unseal(text string) State {
	if strings.HasPrefix(text, SealPrefix) {
		if b, err := base64.StdEncoding.DecodeString(text); err == nil {
			flags := b[len(sealMagic):]
			if len(flags) > 0 && flags[0] >= '0' && flags[0] <= '5' {
				if owner, data, ok := strings.Cut(string(flags[1:]), "\n"); ok && owner != "" {
					return State{Owner: owner, Data: data, Redacted: flags[0]&1 != 0, Attach: Attach((flags[0] - '0') >> 1)}
				}
			}
		}
	}
	return State{Data: text}
}

// Before packs a block of reasoning into a state for the call that follows it: some clients keep what belongs to a call,
// and drop reasoning from their history.
func Before(thinking *Block) *State {
	s := *thinking.State
	s.Attach = AttachBefore
	s.Data = strconv.Itoa(len(thinking.Text)) + ":" + thinking.Text + s.Data
	return &s
}

// Thinking unpacks what Before packed; ok is false for any other state.
func (s *State) Thinking() (b Block, ok bool) {
	if s == nil || s.Attach != AttachBefore || s.Owner == "" {
		return Block{}, false
	}
	length, rest, ok := strings.Cut(s.Data, ":")
	n, err := strconv.Atoi(length)
	if !ok || err != nil || n < 0 || n > len(rest) {
		return Block{}, false
	}
	return Block{Kind: Thinking, Text: rest[:n], State: &State{Owner: s.Owner, Data: rest[n:], Redacted: s.Redacted}}, true
}

// Sealed reports whether a client's opaque text is one of ours.
func Sealed(text string) bool { return Unseal(text).Owner != "" }

// For returns the state's data where it may go to the owner, ok false where not. A nil State may go nowhere.
func (s *State) For(owner string) (data string, ok bool) {
	if s == nil || s.Owner == "" || s.Owner != owner {
		return "", false
	}
	return s.Data, true
}

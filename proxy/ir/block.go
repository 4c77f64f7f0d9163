package ir

import (
	"cmp"
	"strings"
)

// BlockKind is what a block is.
type BlockKind uint8

// The kinds. After each: the fields of Block that it uses beside At, Cache and State.
const (
	Text         BlockKind = iota + 1 // Text, Citations
	Image                             // Media, Detail
	Document                          // Media (or Text for a plain-text document), Title, Context
	Audio                             // Media
	Video                             // Media
	Thinking                          // Text, Breaks; State: how its owner knows it again
	ToolCall                          // ID, ItemID, ToolName, Form, Args
	ToolResult                        // ID, ToolName (the call's, where said), Form, Content, IsError
	Refusal                           // Text
	HostedCall                        // of a tool that the provider runs: ToolName, ID, Raw
	HostedResult                      // ID, Raw
	Opaque                            // what no other dialect knows: Type, Raw
)

// Block is one piece of a turn or an answer.
type Block struct {
	Kind BlockKind
	At   string // path in the client's body, e.g. "messages[3].content[1]"; "" in answers
	Text string

	Citations []byte // JSON array in the dialect that it came in; no other dialect can use it

	Media          Media
	Detail         string // of images: auto, low, high, original
	Title, Context string

	// Breaks are the offsets in Text at which a further part of a summary begins (OpenAI Responses).
	Breaks []int

	// ID pairs a call with its result. It is the one of the dialect that the block came in: an encoder makes it legal,
	// for calls and results alike.
	ID     string
	ItemID string // OpenAI Responses: the item's own id
	ToolName
	// Form is the client's own kind of call: "" a function's, "custom" free text, else a typed tool's (Tool.Form).
	Form string
	// Args is the exact text of a call's arguments: JSON, or free text of a custom call. "" of a function is {}.
	Args    string
	Content []Block // of a ToolResult: Text, Image, Document, …
	IsError bool

	// State is opaque state of a provider that belongs to this very block.
	State *State

	Cache *CacheMark

	Type string // of Opaque, HostedCall, HostedResult: the dialect's word
	Raw  []byte // the block as it was, JSON
}

// Paragraphs is the text of reasoning with an empty line between the parts of a summary.
func (b *Block) Paragraphs() string {
	if len(b.Breaks) == 0 {
		return b.Text
	}
	var s strings.Builder
	at := 0
	for _, n := range b.Breaks {
		if n > at && n < len(b.Text) {
			s.WriteString(b.Text[at:n])
			s.WriteString("\n\n")
			at = n
		}
	}
	s.WriteString(b.Text[at:])
	return s.String()
}

// LostName is the word under which a block that no other dialect knows is lost.
func (b *Block) LostName() string { return cmp.Or(b.Type, "opaque") }

// AnswerName is the same for a block of an answer.
func (b *Block) AnswerName() string {
	switch b.Kind {
	case Image:
		return "image"
	case Audio:
		return "audio"
	case Video:
		return "video"
	case Document:
		return "document"
	case ToolResult:
		return "tool_result"
	}
	if b.Type == "" {
		return "opaque"
	}
	return "opaque." + b.Type
}

package ir

// EventKind is what an event of an answer does.
type EventKind uint8

// The kinds. An answer is EventStart, blocks, EventFinish, EventEnd; or it ends with EventFault at any place. Usage may
// come anywhere between, also after EventFinish. Blocks may be open at the same time: a delta names its block. After
// each kind: the fields that it uses.
const (
	EventStart  EventKind = iota + 1 // ID, Model
	EventBlock                       // Block, Start: a block begins. Start.Text and Start.Args are empty; what has no pieces (HostedCall, Opaque, Image, …) is whole in Start
	EventDelta                       // Block, Text: more of the block's text, or of a call's Args; never ""
	EventBreak                       // Block: a further part of a summary begins (Block.Breaks)
	EventState                       // Block, State: the block's state; before its EventClose
	EventCite                        // Block, Raw: a citation of a Text block, a JSON object in the upstream's dialect
	EventClose                       // Block: the block is whole
	EventUsage                       // Usage: cumulative; the last figures win
	EventFinish                      // Stop
	EventFault                       // Fault: terminal; no EventEnd follows
	EventEnd                         // terminal
	EventAlive                       // a keep-alive of the upstream
)

// Event is one step of an answer.
type Event struct {
	Kind  EventKind
	Block int    // ordinal of the block: 0, 1, 2, … in the order of their EventBlock
	Start *Block // of EventBlock
	Text  string
	State *State
	Raw   []byte

	ID, Model string
	Usage     Usage
	Stop      Stop
	Fault     *Fault
}

// Stop says why an answer ended.
type Stop struct {
	Reason   StopReason
	Sequence string // the stop sequence that was met, where it is said
	Native   string // the upstream's own word
	Text     string // explanation of a refusal
	Assumed  bool   // the upstream never said it
}

// StopReason is the canonical word.
type StopReason string

// The reasons.
const (
	StopEnd      StopReason = "end_turn"
	StopTool     StopReason = "tool_use"
	StopLength   StopReason = "max_tokens"
	StopSequence StopReason = "stop_sequence"
	StopRefusal  StopReason = "refusal"
	StopPause    StopReason = "pause_turn"
	StopContext  StopReason = "model_context_window_exceeded"
)

// Decoder reads an upstream's event stream. It is told of each event of the wire and appends what it means. It may hold
// back what it cannot yet say; it never waits for a later event without need. One Decoder serves one answer.
type Decoder interface {
	// Event reads one event: its name ("" where it has none) and data. Neither is valid after the call.
	Event(dst []Event, name, data []byte) []Event
	// End is called once, when the body has ended without EventEnd or EventFault. Where what came is a natural end of the
	// dialect it closes open blocks and appends EventFinish (if none came) and EventEnd, else nothing.
	End(dst []Event) []Event
}

// Encoder writes an answer as an event stream of the client's dialect. It is called with events in the order that the
// Bridge guarantees.
type Encoder interface {
	// Append appends the bytes that say the event, whole wire events only; none where nothing can be said yet.
	Append(dst []byte, e *Event) []byte
	// Lost names what of the answer could not be said so far, e.g. "citations".
	Lost() []string
}

// Answer is a whole answer: the fold of its events.
type Answer struct {
	ID, Model string
	Blocks    []Block
	Usage     Usage
	Stop      Stop
}

// Source is what a decoder of answers must know beside the bytes.
type Source struct {
	Owner string // for State.Owner of what the answer holds
	Seed  string // unique to the request, for ids that the upstream left out
}

// Reply is what an encoder of answers must know beside the events.
type Reply struct {
	Request *Request // what the client asked, as decoded
	Model   string   // the name to show
	Seed    string   // unique to the request, for ids: [0-9a-f]+
	Created int64    // Unix seconds
	Array   bool     // Gemini: the JSON-array form of a stream
}

package ir

// Dialect is what the rest of the house needs of one: each package below codec/ returns its own. All functions are pure.
type Dialect struct {
	Name string // e.g. "openai-chat"; in configurations and the journal
	// Prefix is the first segment of the paths of clients that append to a base URL in their own way: "openai".
	Prefix string
	// Endpoints are the path patterns at which clients ask for an answer, with {id} for one segment.
	Endpoints []Endpoint

	DecodeRequest func(in Incoming) (*Request, error)
	EncodeRequest func(r *Request, t Target) (*Outgoing, error)

	NewDecoder   func(s Source) Decoder
	DecodeAnswer func(body []byte, s Source) ([]Event, error)
	NewEncoder   func(r Reply) Encoder
	AppendAnswer func(dst []byte, a *Answer, r Reply) (body []byte, lost []string)

	// Fault reads an error answer, or the data of an error event (status 0: what its type stands for). What is no error
	// envelope gives a fault with nothing but Status and Kind.
	Fault func(status int, body []byte) Fault
	// AppendError appends an error body. Status and Retry-After are the caller's.
	AppendError func(dst []byte, f *Fault, trace string) []byte
	// Status is the HTTP status of a fault for a client of this dialect.
	Status func(f *Fault) int

	// Forgets says that its clients have no place for opaque state: what answers hold is remembered here, by call id.
	Forgets bool
	// CallID is the id of a call as a client that forgets is shown it; nil: the upstream's own.
	CallID func(id string) string
	// CallsCarry says that its clients keep opaque state of calls but drop reasoning: the call carries both (Before).
	CallsCarry bool
	// CommitAfter is after how many seconds without a good head a stream must be begun all the same, because its clients
	// give up soon after; 0 = never.
	CommitAfter int

	Raw Raw
}

// Endpoint is a path at which clients ask for an answer.
type Endpoint struct {
	Pattern string // {id} stands for one segment
	Action  string // Gemini: what stands behind the id's last colon; "" elsewhere
	Stream  bool   // the path itself asks for a stream
}

// Incoming is a client's request.
type Incoming struct {
	Body   []byte // valid JSON, checked; its memory is not kept
	Model  string // where the path names it; "" = the body does
	Stream bool   // where the path says it
}

// Target is who a request is encoded for.
type Target struct {
	Model string // the upstream's name
	Owner string // whose opaque state may go there (State.For)
}

// Outgoing is a request in the target's dialect.
type Outgoing struct {
	Body    []byte
	Path    string      // escaped, e.g. "/v1/messages"
	Query   string      // e.g. "alt=sse"
	Headers [][2]string // that the dialect asks for, e.g. anthropic-version
	Tools   *ToolBook   // how names are restored in the answer
	Lost    []string    // the client's fields that the target cannot say, Request.Lost included, each once
}

// Raw is what the raw lane, on which a dialect's own clients and upstreams meet, needs to follow an answer that it does
// not change.
type Raw struct {
	// NewTap returns what reads a stream on the side.
	NewTap func() Tap
	// IsBulk reports whether a raw wire event is plainly content without usage, so that the tap need not be asked; nil: ask
	// always.
	IsBulk func(event []byte) bool
	// Members are the top-level members of a plain answer that Plain needs.
	Members []string
	// Plain reads a plain answer's usage and stop reason from them; value gives nil for an absent member.
	Plain func(value func(name string) []byte) (Usage, string)
	// Items is the member of a plain answer that lists what later requests can refer to by id; "" = nothing.
	Items string
	// Refers tells of the ids in a request's top-level member that are of things kept in one account; nil: there are none.
	Refers func(key string, value []byte, visit func(Reference))
	// Says are the members of which a plain answer must have one.
	Says []string
	// Last says that nothing may follow the terminal event: clients stumble over it.
	Last bool
	// KeepAlive are the bytes between two events that tell the client that we are alive; started: the message has begun.
	KeepAlive func(started bool) []byte
	// Opening is the text by which a write shows that the message has begun; "" where that does not matter.
	Opening string
	// Repair takes foreign opaque state out of a request of this dialect and mends what that leaves (routing.md, 10). out
	// is nil where nothing had to change; removed names what was taken, by the client's fields. nil: never needed.
	Repair func(body []byte, how Repair) (out []byte, removed []string, err error)
}

// Reference is an id in a request of a thing that a provider keeps in one account.
type Reference struct {
	At string // the client's field
	ID string
}

// Repair says how much opaque state is taken out of a request.
type Repair uint8

// From little to all.
const (
	RepairSealed Repair = iota // what Seal packed: its owner is not the provider of this lane
	RepairClosed               // and all state in turns before the last one that is the user's own
	RepairAll                  // all state
)

// Tap reads a stream of its dialect on the side. One Tap serves one answer.
type Tap interface {
	// Mark tells what a wire event means for the relay.
	Mark(name, data []byte) Mark
	// Break appends the event that ends a broken stream as the dialect says it. nil, whatever dst: it cannot be said, the
	// connection must be aborted.
	Break(dst []byte, f *Fault, trace string) []byte
	// Finish appends what a stream lacks that ended without saying why, where the dialect's providers do that and it was
	// whole; reason says what was appended. nil: such an end is a break.
	Finish(dst []byte) (out []byte, reason string)
}

// MarkKind is what an event of a stream does, for the relay.
type MarkKind uint8

// The kinds.
const (
	MarkOther  MarkKind = iota // keep-alives, starts of empty blocks, what we do not know
	MarkStart                  // the message begins
	MarkDelta                  // content that is not empty
	MarkFinish                 // the stop reason is said
	MarkStop                   // the terminal event: nothing comes after it
	MarkError                  // the terminal event of a stream that failed
	MarkNoise                  // nothing, in a form that breaks clients: it is not passed on
)

// Mark is what the relay needs of an event: enough to know when the head has proved good, when the end has come, and
// what it cost. An event that does two things has the later kind; Content says that it is content, too.
type Mark struct {
	Kind       MarkKind
	ID         string // of the answer or of an item of it, where it can be referred to later
	Content    bool
	Usage      Usage
	StopReason string
	Fault      *Fault
}

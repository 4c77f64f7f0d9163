// Package ir is WHAT is said, in no one's dialect: the canonical request, its blocks, the events of an answer, usage and
// faults. Every dialect decodes to these types and encodes from them, so that n dialects need 2n halves and not n² pairs
// (facts/protocols.md, section 5). Words for reasons, kinds of errors and efforts are Anthropic's where it has one.
package ir

// Role says who speaks in a turn.
type Role uint8

// The roles. Results of tools are blocks of a User turn, as Anthropic has them.
const (
	User Role = iota
	Assistant
	System    // an instruction in the middle of the conversation; Request.System holds those before it
	Developer // the same, where a dialect tells the two apart
)

// Request is a conversation that a model shall continue, and how.
type Request struct {
	Model  string // as the decoder found it; the target's own name is in Target
	Stream bool

	System []Block // instructions before the conversation; Text alone
	Turns  []Turn  // as the client has them: neighbours may have one role
	Tools  []Tool
	Choice Choice
	// Parallel says whether several calls in one turn are wanted; nil = not said.
	Parallel *bool

	MaxTokens   int64 // 0 = not said
	Sampling    Sampling
	Stop        []string
	Format      Format
	Reasoning   Reasoning
	Verbosity   string // low, medium, high
	Cache       Cache
	User        string // the end user's or session's opaque id
	Metadata    []byte // JSON object of strings, nil = none
	ServiceTier string // auto, default, flex, priority, fast
	// IncludeUsage says that the client of a Chat stream asked for the usage chunk.
	IncludeUsage bool

	Names *FieldNames // what the client calls the fields, for Lost and errors
	Lost  []string    // the client's fields that are not kept here, by path: no other dialect can say them
}

// Turn is what one side says at once.
type Turn struct {
	At     string // path in the client's body, e.g. "messages[3]"
	Role   Role
	Blocks []Block
	Phase  string // OpenAI Responses: commentary or final_answer
}

// Sampling holds numbers as they were written, "" = not said.
type Sampling struct {
	Temperature, TopP, TopK, FrequencyPenalty, PresencePenalty, Seed string
	LogitBias                                                        []byte // JSON object
}

// Choice says which tools the model may or must call.
type Choice struct {
	Mode  ChoiceMode
	Names []ToolName // of ChoiceOne the one, of the others those that are allowed; nil = all
}

// ToolName names a tool of the request as the client does.
type ToolName struct{ Namespace, Name string }

// ChoiceMode is a rule for calls.
type ChoiceMode uint8

// The modes.
const (
	ChoiceUnset ChoiceMode = iota
	ChoiceAuto
	ChoiceNone
	ChoiceRequired // some call
	ChoiceOne      // a call of Names[0]
)

// FormatKind is the form that the answer's text must have.
type FormatKind uint8

// The forms.
const (
	FormatText FormatKind = iota
	FormatJSON            // any JSON object
	FormatSchema
)

// Format asks for structured output.
type Format struct {
	Kind              FormatKind
	Name, Description string
	Schema            []byte // JSON Schema as the client wrote it
	Strict            *bool
}

// ReasoningMode says whether the model shall reason.
type ReasoningMode uint8

// The modes.
const (
	ReasoningUnset ReasoningMode = iota
	ReasoningOff
	ReasoningOn
)

// Reasoning controls it. Effort and Budget may both be said; see EffortOf and BudgetOf.
type Reasoning struct {
	Mode    ReasoningMode
	Effort  string // minimal, low, medium, high, xhigh, max; "" = not said. None is ReasoningOff.
	Budget  int64  // tokens; 0 = not said, -1 = as the model likes
	Summary string // OpenAI Responses: auto, concise, detailed
	Show    *bool  // whether the reasoning's text shall be in the answer; nil = not said
}

// Cache says what may be kept warm.
type Cache struct {
	Key       string     // prompt_cache_key
	Retention string     // in_memory, 24h
	Auto      *CacheMark // a mark on the last block that can have one
}

// CacheMark ends a prefix that shall be cached.
type CacheMark struct {
	TTL string // "" = the provider's default, else 5m, 1h, 30m, 12h
}

// ToolKind is what a tool is to the model.
type ToolKind uint8

// The kinds.
const (
	ToolFunction ToolKind = iota // arguments are a JSON object
	ToolCustom                   // the input is free text, perhaps under a grammar
	ToolHosted                   // the provider runs it
)

// Tool is one that the model may call.
type Tool struct {
	At   string
	Kind ToolKind
	ToolName
	Description string
	Schema      []byte // of a function's arguments, JSON; nil = none
	Strict      *bool
	Grammar     []byte // of custom tools: the format object of the OpenAI dialects, flat as Responses has it; nil = text
	// Form is the client's own kind of call that a function stands for: a typed client tool (local_shell, apply_patch,
	// shell, …). "" for functions, "custom" for custom tools.
	Form   string
	Hosted Hosted
	Cache  *CacheMark
}

// Hosted is a tool that the provider runs. WebSearch can be said in several dialects, the others in the client's alone.
type Hosted struct {
	Type                           string // "web_search", else the client's own word
	AllowedDomains, BlockedDomains []string
	Location                       []byte // user location, JSON object {type:"approximate",city,region,country,timezone}
	MaxUses                        int64
}

// WebSearch is the Hosted.Type that more than one dialect knows.
const WebSearch = "web_search"

// Lose notes that a field of the client cannot be said.
func (r *Request) Lose(f Field) {
	if r.Names != nil {
		r.LosePath(r.Names[f])
	}
}

// LosePath notes the loss of a path, once.
func (r *Request) LosePath(path string) { r.Lost = AppendLost(r.Lost, path) }

// Name is what the client calls the field.
func (r *Request) Name(f Field) string {
	if r.Names == nil || r.Names[f] == "" {
		return "request"
	}
	return r.Names[f]
}

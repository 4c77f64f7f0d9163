package anthropic

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// reader decodes one request. What only Anthropic could do with is named as lost where it is met.
type reader struct {
	r      *ir.Request
	effort string    // of the last system message that sets one
	signed *ir.State // of the call that comes next in this turn
}

// top are the members of a request that are decoded, raw; nil = absent or null.
type top struct {
	model, messages, system, tools, choice, maxTokens, stream, stop, metadata, tier, thinking, output, format, cache []byte
}

// decodeRequest implements ir.Dialect, for both versions of the API: they differ in what the API refuses alone.
func decodeRequest(in ir.Incoming) (*ir.Request, error) {
	rd := &reader{r: &ir.Request{Names: &names, Model: in.Model, Stream: in.Stream}}
	var t top
	if err := rd.top(in.Body, &t); err != nil {
		return nil, err
	}
	for _, step := range [...]func(*top) error{rd.scalars, rd.options, rd.instructions, rd.toolset, rd.conversation, rd.reasoning} {
		if err := step(&t); err != nil {
			return nil, err
		}
	}
	return rd.r, nil
}

// top sorts the members of the request.
func (rd *reader) top(body []byte, t *top) error {
	return object(body, "request", func(key, v []byte) error {
		switch string(key) {
		case "model":
			t.model = v
		case "messages":
			t.messages = v
		case "system":
			t.system = v
		case "tools":
			t.tools = v
		case "tool_choice":
			t.choice = v
		case "max_tokens":
			t.maxTokens = v
		case "stream":
			t.stream = v
		case "stop_sequences":
			t.stop = v
		case "metadata":
			t.metadata = v
		case "service_tier":
			t.tier = v
		case "thinking":
			t.thinking = v
		case "output_config":
			t.output = v
		case "output_format": // the older place of output_config.format
			t.format = v
		case "cache_control":
			t.cache = v
		case "temperature":
			return number(v, "temperature", &rd.r.Sampling.Temperature)
		case "top_p":
			return number(v, "top_p", &rd.r.Sampling.TopP)
		case "top_k":
			return number(v, "top_k", &rd.r.Sampling.TopK)
		default:
			return rd.foreign(key, v)
		}
		return nil
	})
}

// foreign sorts out what no other dialect can say: refused where the answer would be another one without it, else named.
func (rd *reader) foreign(key, v []byte) error {
	switch string(key) {
	case "container":
		return ir.Refuse("container", "needs a provider that speaks this dialect")
	case "mcp_servers":
		if n, err := count(v, "mcp_servers"); err != nil || n == 0 {
			return err
		}
		return ir.Refuse("mcp_servers", "needs a provider that speaks this dialect")
	case "compaction":
		return ir.Refuse("compaction", "needs a provider that speaks this dialect")
	case "thread":
		if rawjson.Get(v, "previous_message_id") != nil { // the history is with the provider
			return ir.Refuse("thread.previous_message_id", "needs a provider that speaks this dialect")
		}
	}
	rd.lose(key)
	return nil
}

// scalars decodes what is one value.
func (rd *reader) scalars(t *top) error {
	r := rd.r
	if t.model != nil {
		if err := text(t.model, "model", &r.Model); err != nil {
			return err
		}
	}
	if t.stream != nil {
		if err := boolean(t.stream, "stream", &r.Stream); err != nil {
			return err
		}
	}
	if t.maxTokens != nil {
		n, ok := rawjson.Int(t.maxTokens)
		if !ok || n < 0 {
			return ir.Refuse("max_tokens", "must be a whole number, 0 or more")
		}
		if r.MaxTokens = n; n == 0 { // "warm the cache, answer nothing": one token is the least that others can do
			r.MaxTokens = 1
			r.Lose(ir.FieldMaxTokens)
		}
	}
	if t.stop != nil {
		return array(t.stop, "stop_sequences", func(i int, v []byte) error {
			var s string
			err := text(v, ir.Element("stop_sequences", i), &s)
			r.Stop = append(r.Stop, s)
			return err
		})
	}
	return nil
}

// options decodes metadata, service tier and the automatic cache mark.
func (rd *reader) options(t *top) error {
	if t.metadata != nil {
		err := object(t.metadata, "metadata", func(key, v []byte) error {
			if string(key) != "user_id" {
				rd.r.Lose(ir.FieldMetadata)
				return nil
			}
			return text(v, "metadata.user_id", &rd.r.User)
		})
		if err != nil {
			return err
		}
		rd.r.Cache.Key = cacheKey(rd.r.User)
	}
	if t.tier != nil {
		var tier string
		if err := text(t.tier, "service_tier", &tier); err != nil {
			return err
		}
		switch tier {
		case "auto":
			rd.r.ServiceTier = "auto"
		case "standard_only":
			rd.r.ServiceTier = "default"
		default:
			rd.r.Lose(ir.FieldServiceTier)
		}
	}
	if t.cache != nil {
		var err error
		rd.r.Cache.Auto, err = rd.mark(t.cache, "cache_control")
		return err
	}
	return nil
}

// cacheKey takes the session out of the user id of Claude Code (facts/clients.md 0.8): a member of a JSON text, or what
// follows "_session_" in older versions. It is at most 64 bytes long, as OpenAI wants it.
func cacheKey(user string) string {
	session, _ := rawjson.String(rawjson.Get([]byte(user), "session_id"))
	if session == "" && strings.HasPrefix(user, "user_") {
		_, session, _ = strings.Cut(user, "_session_")
	}
	return ir.Shorten(session, 64)
}

// instructions decodes the system prompt.
func (rd *reader) instructions(t *top) error {
	if t.system == nil {
		return nil
	}
	blocks, err := rd.content(t.system, "system", 0)
	if err != nil {
		return err
	}
	for i := range blocks {
		if blocks[i].Kind != ir.Text {
			return ir.Refuse(blocks[i].At, "must be a text block")
		}
	}
	rd.r.System = blocks
	return nil
}

// conversation decodes the messages.
func (rd *reader) conversation(t *top) error {
	if t.messages == nil {
		return ir.Refuse("messages", "is required")
	}
	rd.r.Turns = make([]ir.Turn, 0, 32)
	return array(t.messages, "messages", func(i int, v []byte) error { return rd.message(v, ir.Element("messages", i)) })
}

func (rd *reader) message(raw []byte, at string) error {
	var role, content []byte
	err := object(raw, at, func(key, v []byte) error {
		switch string(key) {
		case "role":
			role = v
		case "content":
			content = v
		case "output_config":
			rd.perTurn(v)
		case "clear_at":
			if string(v) != `"never"` {
				rd.lose(key)
			}
		default:
			rd.lose(key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	turn := ir.Turn{At: at}
	switch s, _ := rawjson.String(role); s {
	case "user":
		turn.Role = ir.User
	case "assistant":
		turn.Role = ir.Assistant
	case "system":
		turn.Role = ir.System
	case "developer": // not of this dialect, but clients of the other ones send it (CNV-025)
		turn.Role = ir.Developer
	default:
		return ir.Refuse(at+".role", "must be user, assistant or system")
	}
	if content == nil {
		return ir.Refuse(at+".content", "is required")
	}
	rd.signed = nil
	if turn.Blocks, err = rd.content(content, at+".content", 0); err != nil {
		return err
	}
	results := rd.results(&turn)
	rd.r.Turns = append(rd.r.Turns, turn)
	if len(results) > 0 {
		rd.r.Turns = append(rd.r.Turns, ir.Turn{At: at, Role: ir.User, Blocks: results})
	}
	return nil
}

// results takes tool results out of an assistant turn, where some providers put them (CNV-014).
func (rd *reader) results(turn *ir.Turn) []ir.Block {
	if turn.Role != ir.Assistant {
		return nil
	}
	var results []ir.Block
	kept := turn.Blocks[:0]
	for _, b := range turn.Blocks {
		if b.Kind == ir.ToolResult {
			results = append(results, b)
		} else {
			kept = append(kept, b)
		}
	}
	turn.Blocks = kept
	return results
}

// perTurn decodes the output_config of a system message: the effort from there on.
func (rd *reader) perTurn(v []byte) {
	if s, ok := rawjson.String(rawjson.Get(v, "effort")); ok && ir.BudgetOf(s) > 0 {
		rd.effort = s
	}
	_ = rawjson.Walk(v, func(key []byte, _ rawjson.Field) error { // what is no object has nothing to lose
		if string(key) != "effort" {
			rd.r.LosePath("messages.output_config")
		}
		return nil
	})
}

// reasoning decodes thinking and output_config.
func (rd *reader) reasoning(t *top) error {
	if err := rd.thinking(t.thinking); err != nil {
		return err
	}
	if t.output != nil {
		err := object(t.output, "output_config", func(key, v []byte) error {
			switch string(key) {
			case "effort":
				return rd.setEffort(v)
			case "format":
				t.format = v
			default:
				rd.lose([]byte("output_config." + string(key)))
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	switch re := &rd.r.Reasoning; {
	case re.Effort == "":
		re.Effort = rd.effort
	case rd.effort != "" && rd.effort != re.Effort:
		rd.r.LosePath("messages.output_config")
	}
	return rd.setFormat(t.format)
}

func (rd *reader) setEffort(v []byte) error {
	var s string
	if err := text(v, "output_config.effort", &s); err != nil {
		return err
	}
	if ir.BudgetOf(s) == 0 {
		rd.r.LosePath("output_config.effort")
		return nil
	}
	rd.r.Reasoning.Effort = s
	return nil
}

func (rd *reader) setFormat(v []byte) error {
	if v == nil {
		return nil
	}
	f := &rd.r.Format
	var kind string
	err := object(v, "output_config.format", func(key, v []byte) error {
		switch string(key) {
		case "type":
			return text(v, "output_config.format.type", &kind)
		case "schema":
			f.Schema = bytes.Clone(v) // the body's memory is not ours to keep
		default:
			rd.lose([]byte("output_config.format." + string(key)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if kind != "json_schema" || f.Schema == nil {
		return ir.Refuse("output_config.format", "must be a json_schema with a schema")
	}
	f.Kind = ir.FormatSchema
	return nil
}

func (rd *reader) thinking(v []byte) error {
	if v == nil {
		return nil
	}
	re := &rd.r.Reasoning
	var kind, display string
	err := object(v, "thinking", func(key, v []byte) error {
		switch string(key) {
		case "type":
			return text(v, "thinking.type", &kind)
		case "display":
			return text(v, "thinking.display", &display)
		case "budget_tokens":
			n, ok := rawjson.Int(v)
			if !ok || n < 0 {
				return ir.Refuse("thinking.budget_tokens", "must be a whole number, 0 or more")
			}
			re.Budget = n
		default:
			rd.lose([]byte("thinking." + string(key)))
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch kind {
	case "enabled":
		re.Mode = ir.ReasoningOn
	case "adaptive":
		re.Mode, re.Budget = ir.ReasoningOn, -1
	case "disabled":
		re.Mode, re.Budget = ir.ReasoningOff, 0
	case "between_tools": // nearly off: nowhere else is there such a thing
		re.Mode, re.Budget = ir.ReasoningOff, 0
		rd.r.LosePath("thinking.type")
	default:
		re.Budget = 0
		rd.r.LosePath("thinking.type")
	}
	if display != "" {
		show := display != "omitted"
		re.Show = &show
	}
	return nil
}

// mark decodes a cache_control.
func (rd *reader) mark(v []byte, at string) (*ir.CacheMark, error) {
	var m ir.CacheMark
	err := object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "type":
		case "ttl":
			return text(v, at+".ttl", &m.TTL)
		default:
			rd.lose([]byte("cache_control." + string(key)))
		}
		return nil
	})
	return &m, err
}

// lose names a member that is not kept.
func (rd *reader) lose(key []byte) { rd.r.LosePath(string(key)) }

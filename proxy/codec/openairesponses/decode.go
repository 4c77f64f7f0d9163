package openairesponses

import (
	"bytes"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// reader decodes one request.
type reader struct {
	r *ir.Request

	instructions string
	user         string    // the older name of safety_identifier
	more         []ir.Tool // that items of the input bring: they stand behind the request's own
	asksLogprobs bool

	run       run
	begun     bool              // an item has come that is no instruction
	callState *ir.State         // of the call that follows in this run
	callIDs   map[string]string // of the calls, by the ids of their items
}

// run is what the last turn of the request may still take in.
type run uint8

const (
	noRun run = iota
	assistantRun
	resultRun
)

// decodeRequest reads a client's request.
func decodeRequest(in ir.Incoming) (*ir.Request, error) {
	d := reader{r: &ir.Request{Model: in.Model, Stream: in.Stream, Names: &fieldNames}}
	err := rawjson.Walk(in.Body, func(key []byte, f rawjson.Field) error {
		if v := f.Value(in.Body); !isNull(v) {
			return d.member(string(key), v, in.Model != "")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := d.r
	if d.asksLogprobs {
		return nil, ir.Refuse("include", "log probabilities cannot be converted")
	}
	if d.instructions != "" {
		r.System = append([]ir.Block{{Kind: ir.Text, At: "instructions", Text: d.instructions}}, r.System...)
	}
	switch {
	case r.User == "":
		r.User = d.user
	case d.user != "" && d.user != r.User:
		r.LosePath("user")
	}
	d.addTools()
	return r, nil
}

// member decodes a member of the request that is not null.
func (d *reader) member(name string, v []byte, modelKnown bool) (err error) {
	r := d.r
	switch name {
	case "model":
		var m string
		if m, err = textOf("", name, v); !modelKnown {
			r.Model = m
		}
	case "stream":
		var on *bool
		if on, err = boolOf("", name, v); err == nil {
			r.Stream = r.Stream || *on
		}
	case "instructions":
		d.instructions, err = textOf("", name, v)
	case "input":
		err = d.input(v)
	case "tools":
		r.Tools = nil
		err = listOf("", name, v, func(i int, t []byte) error {
			return d.tool(ir.Element(name, i), t, "", &r.Tools)
		})
	case "tool_choice":
		err = d.choice(v)
	case "parallel_tool_calls":
		r.Parallel, err = boolOf("", name, v)
	case "max_output_tokens":
		r.MaxTokens, err = countOf("", name, v)
	case "temperature":
		r.Sampling.Temperature, err = numberOf("", name, v)
	case "top_p":
		r.Sampling.TopP, err = numberOf("", name, v)
	case "reasoning":
		err = d.reasoning(v)
	case "text":
		err = d.text(v)
	default:
		return d.side(name, v)
	}
	return err
}

// side decodes the members that do not change the answer's text.
func (d *reader) side(name string, v []byte) (err error) {
	r := d.r
	switch name {
	case "metadata":
		if v[0] != '{' {
			return ir.Refuse(name, "must be an object")
		}
		if len(v) > 2 {
			r.Metadata = bytes.Clone(v) // the answer repeats it when the body may be gone
		}
	case "service_tier":
		var tier string
		tier, err = textOf("", name, v)
		switch tier {
		case "auto", "default", "flex", "priority", "fast":
			r.ServiceTier = tier
		default:
			r.Lose(ir.FieldServiceTier)
		}
	case "prompt_cache_key":
		r.Cache.Key, err = textOf("", name, v)
	case "prompt_cache_retention":
		r.Cache.Retention, err = textOf("", name, v)
	case "safety_identifier":
		r.User, err = textOf("", name, v)
	case "user":
		d.user, err = textOf("", name, v)
	case "include":
		// What else it asks for concerns hosted tools, which lose it with themselves.
		err = listOf("", name, v, func(_ int, v []byte) error {
			d.asksLogprobs = d.asksLogprobs || string(v) == `"message.output_text.logprobs"`
			return nil
		})
	case "stream_options": // obfuscation of the stream: nothing to the client
	case "store":
		if string(v) != "false" {
			r.LosePath(name)
		}
	case "truncation":
		if string(v) != `"disabled"` {
			r.LosePath(name)
		}
	case "background":
		if string(v) != "false" {
			return ir.Refuse(name, "an answer in the background cannot be converted")
		}
	case "previous_response_id", "conversation", "prompt":
		return ir.Refuse(name, "stands for something that the provider has stored, which a conversion cannot reach")
	case "n":
		if n, ok := rawjson.Int(v); !ok || n > 1 {
			return ir.Refuse(name, "only one answer can be converted")
		}
	case "top_logprobs", "logprobs":
		if string(v) != "0" && string(v) != "false" {
			return ir.Refuse(name, "log probabilities cannot be converted")
		}
	case "modalities":
		if string(v) != `["text"]` {
			return ir.Refuse(name, "only text can be converted")
		}
	default:
		d.lose(name)
	}
	return err
}

// reasoning decodes how much the model shall reason, and show of it.
func (d *reader) reasoning(v []byte) error {
	q := &d.r.Reasoning
	older := ""
	err := objectOf("", "reasoning", v, func(key string, v []byte) (err error) {
		if isNull(v) {
			return nil
		}
		switch key {
		case "effort":
			q.Effort, err = textOf("", "reasoning.effort", v)
		case "summary":
			q.Summary, err = textOf("", "reasoning.summary", v)
		case "generate_summary": // the name of earlier versions
			older, err = textOf("", "reasoning.generate_summary", v)
		default:
			d.lose("reasoning." + key)
		}
		return err
	})
	if q.Summary == "" {
		q.Summary = older
	}
	switch q.Effort {
	case "":
	case "none":
		q.Mode, q.Effort = ir.ReasoningOff, ""
	default:
		q.Mode = ir.ReasoningOn
	}
	if q.Summary != "" {
		show := q.Summary != "none"
		if q.Show = &show; !show {
			q.Summary = ""
		}
	}
	return err
}

// text decodes the form of the answer's text.
func (d *reader) text(v []byte) error {
	return objectOf("", "text", v, func(key string, v []byte) (err error) {
		switch {
		case isNull(v):
		case key == "verbosity":
			d.r.Verbosity, err = textOf("", "text.verbosity", v)
		case key == "format":
			return d.format(v)
		default:
			d.lose("text." + key)
		}
		return err
	})
}

func (d *reader) format(v []byte) error {
	f := &d.r.Format
	kind := ""
	err := objectOf("", "text.format", v, func(key string, v []byte) (err error) {
		if isNull(v) {
			return nil
		}
		switch key {
		case "type":
			kind, err = textOf("", "text.format.type", v)
		case "name":
			f.Name, err = textOf("", "text.format.name", v)
		case "description":
			f.Description, err = textOf("", "text.format.description", v)
		case "schema":
			if f.Schema = bytes.Clone(v); v[0] != '{' {
				err = ir.Refuse("text.format.schema", "must be an object")
			}
		case "strict":
			f.Strict, err = boolOf("", "text.format.strict", v)
		default:
			d.lose("text.format." + key)
		}
		return err
	})
	if err != nil {
		return err
	}
	switch kind {
	case "", "text":
		*f = ir.Format{}
	case "json_object":
		*f = ir.Format{Kind: ir.FormatJSON}
	case "json_schema":
		if f.Kind = ir.FormatSchema; f.Schema == nil {
			return ir.Refuse("text.format.schema", "must be an object")
		}
	default:
		return ir.Refuse("text.format.type", "must be text, json_object or json_schema")
	}
	return nil
}

// lose notes a field that no other dialect can say.
func (d *reader) lose(path string) { d.r.LosePath(path) }

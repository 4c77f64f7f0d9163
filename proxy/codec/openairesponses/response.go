package openairesponses

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// write writes an item.
func (o *output) write(w *rawjson.Writer, status string) {
	w.Open('{')
	w.Field("id", o.id)
	w.Field("type", o.typ)
	switch o.kind {
	case ir.Text, ir.Refusal:
		w.Field("status", status)
		w.Field("role", "assistant")
		w.Key("content")
		w.Open('[')
		if status != "in_progress" {
			o.writePart(w)
		}
		w.Close(']')
	case ir.Thinking:
		w.Key("summary")
		w.Open('[')
		if len(o.text) > 0 {
			for n := 0; n <= len(o.breaks); n++ {
				if part := o.summary(n); len(part) > 0 {
					writeSummary(w, part)
				}
			}
		}
		w.Close(']')
		w.Optional("encrypted_content", o.state)
	case ir.Image:
		w.Field("status", status)
		w.Field("result", string(o.text))
	default:
		o.writeCall(w, status)
	}
	w.Close('}')
}

// writePart writes the only part of a message.
func (o *output) writePart(w *rawjson.Writer) {
	w.Open('{')
	if o.kind == ir.Refusal {
		w.Field("type", "refusal")
		w.Field("refusal", string(o.text))
	} else {
		w.Field("type", "output_text")
		w.Field("text", string(o.text))
		w.Key("annotations")
		w.Open('[')
		for _, c := range o.cites {
			w.Raw(c)
		}
		w.Close(']')
		w.Key("logprobs")
		w.Raw([]byte("[]"))
	}
	w.Close('}')
}

func (o *output) writeCall(w *rawjson.Writer, status string) {
	w.Field("call_id", o.callID)
	switch {
	case o.typed != nil:
		if o.typed.form == "tool_search" {
			w.Field("execution", "client")
		}
		w.Key(o.typed.member)
		w.Raw(o.typed.complete(o.text))
	case o.typ == "custom_tool_call":
		w.Field("name", o.name.Name)
		w.Optional("namespace", o.name.Namespace)
		w.Field("input", string(o.text))
	default:
		w.Field("name", o.name.Name)
		w.Optional("namespace", o.name.Namespace)
		w.Field("arguments", string(o.text))
	}
	w.Field("status", status)
}

// complete puts into an action what its type always has, however the model left it out.
func (t *typed) complete(args []byte) []byte {
	noType, noEnv := rawjson.Get(args, "type") == nil, rawjson.Get(args, "env") == nil
	if t.form != "local_shell" || !noType && !noEnv {
		return args
	}
	var w rawjson.Writer
	w.Open('{')
	if noType {
		w.Field("type", "exec")
	}
	if noEnv {
		w.Key("env")
		w.Raw([]byte("{}"))
	}
	_ = rawjson.Walk(args, func(key []byte, f rawjson.Field) error {
		w.Key(string(key))
		w.Raw(f.Value(args))
		return nil
	})
	w.Close('}')
	return w.Buf
}

// response writes the answer as it stands, with what the client asked (facts/protocols.md, 3.3). Types of SDKs ask for
// all of it.
func (e *encoder) response(w *rawjson.Writer, status string, f *ir.Fault) {
	w.Open('{')
	w.Field("id", "resp_"+e.reply.Seed)
	w.Field("object", "response")
	w.Number("created_at", e.reply.Created)
	w.Field("status", status)
	w.Key("background")
	w.Bool(false)
	w.Key("error")
	if f == nil {
		w.Null()
	} else {
		writeError(w, f)
	}
	w.Key("incomplete_details")
	if reason := e.incomplete(); status == "incomplete" {
		w.Open('{')
		w.Field("reason", reason)
		w.Close('}')
	} else {
		w.Null()
	}
	w.Key("instructions")
	w.Null()
	w.Field("model", e.reply.Model)
	w.Key("output")
	w.Open('[')
	if status != "in_progress" {
		for _, o := range e.items {
			if o.done {
				o.write(w, o.status())
			}
		}
	}
	w.Close(']')
	w.Key("previous_response_id")
	w.Null()
	e.echo(w)
	w.Key("store")
	w.Bool(false)
	w.Key("truncation")
	w.String("disabled")
	w.Key("usage")
	if status == "in_progress" || status == "failed" && e.usage.Known == 0 {
		w.Null()
	} else {
		writeUsage(w, &e.usage)
	}
	w.Close('}')
}

func writeError(w *rawjson.Writer, f *ir.Fault) {
	w.Open('{')
	w.Field("code", failedCode(f))
	w.Field("message", failedMessage(f))
	w.Close('}')
}

// echo repeats what the client asked. Its tools and instructions, long as they are, no client reads there.
func (e *encoder) echo(w *rawjson.Writer) {
	r := e.reply.Request
	if r == nil {
		r = &ir.Request{}
	}
	w.Key("max_output_tokens")
	if r.MaxTokens > 0 {
		w.Int(r.MaxTokens)
	} else {
		w.Null()
	}
	w.Key("parallel_tool_calls")
	w.Bool(r.Parallel == nil || *r.Parallel)
	w.Key("reasoning")
	w.Open('{')
	effort := r.Reasoning.Effort
	if r.Reasoning.Mode == ir.ReasoningOff {
		effort = "none"
	}
	w.Key("effort")
	orNull(w, effort)
	w.Key("summary")
	orNull(w, r.Reasoning.Summary)
	w.Close('}')
	w.Key("temperature")
	orNullRaw(w, r.Sampling.Temperature)
	w.Key("text")
	w.Open('{')
	w.Key("format")
	f := writer{Writer: *w}
	f.format(&r.Format)
	*w = f.Writer
	w.Optional("verbosity", r.Verbosity)
	w.Close('}')
	w.Key("tool_choice")
	switch r.Choice.Mode {
	case ir.ChoiceNone:
		w.String("none")
	case ir.ChoiceRequired:
		w.String("required")
	case ir.ChoiceOne:
		w.Open('{')
		w.Field("type", "function")
		w.Field("name", r.Choice.Names[0].Name)
		w.Close('}')
	default:
		w.String("auto")
	}
	w.Key("tools")
	w.Raw([]byte("[]"))
	w.Key("top_p")
	orNullRaw(w, r.Sampling.TopP)
	w.Key("metadata")
	if len(r.Metadata) > 0 {
		w.Raw(r.Metadata)
	} else {
		w.Raw([]byte("{}"))
	}
}

func orNullRaw(w *rawjson.Writer, number string) {
	if number == "" {
		w.Null()
	} else {
		w.Raw([]byte(number))
	}
}

// appendAnswer appends a whole answer: what a client would make of the stream.
func appendAnswer(dst []byte, a *ir.Answer, r ir.Reply) (body []byte, lost []string) {
	e := &encoder{reply: r, quiet: true, limit: 1 << 62}
	for _, ev := range ir.Unfold(nil, a) {
		e.Append(nil, &ev)
	}
	status := "completed"
	if e.incomplete() != "" {
		status = "incomplete"
	}
	w := rawjson.Writer{Buf: dst}
	e.response(&w, status, nil)
	return w.Buf, e.lost
}

package openaichat

import (
	"bytes"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// reader decodes one request.
type reader struct {
	r     *ir.Request
	names ir.FieldNames

	maxTokens, maxCompletion int64
	user, safety             []byte
	legacyChoice             []byte // function_call, where tool_choice does not overrule it
	choice                   []byte

	custom  map[string]bool // ids of free-text calls
	pending []string        // ids given to calls of the deprecated form that have no result yet
	legacy  int             // how many such calls there were
	results bool            // the last turn holds results of `tool` messages
}

// decodeRequest reads a client's request.
func decodeRequest(in ir.Incoming) (*ir.Request, error) {
	d := &reader{r: &ir.Request{Model: in.Model, Stream: in.Stream}, names: fieldNames}
	var messages []byte
	body := bytes.TrimSpace(in.Body)
	err := object("", "body", body, func(key string, v []byte) error {
		if key == "messages" {
			messages = v
			return nil
		}
		return d.field(key, v)
	})
	if err != nil {
		return nil, err
	}
	if err := d.settle(); err != nil {
		return nil, err
	}
	if messages == nil {
		return nil, ir.Refuse("messages", "is missing")
	}
	err = array("", "messages", messages, func(i int, v []byte) error { return d.message(i, v) })
	if err != nil {
		return nil, err
	}
	d.r.Names = &fieldNames
	if d.names != fieldNames {
		d.r.Names = &d.names
	}
	return d.r, nil
}

// lose names what is not kept.
func (d *reader) lose(path string) { d.r.LosePath(path) }

// field reads a member of the body's top level; deprecated names and vendors' are among them.
func (d *reader) field(key string, v []byte) (err error) {
	r := d.r
	switch key {
	case "model":
		var model string
		if model, err = text("", key, v); r.Model == "" {
			r.Model = model
		}
	case "stream":
		var on bool
		on, err = boolean("", key, v)
		r.Stream = r.Stream || on
	case "stream_options":
		err = d.streamOptions(v)
	case "max_tokens":
		d.maxTokens, err = count(key, v)
	case "max_completion_tokens":
		d.maxCompletion, err = count(key, v)
	case "temperature":
		r.Sampling.Temperature, err = number(key, v)
	case "top_p":
		r.Sampling.TopP, err = number(key, v)
	case "top_k":
		r.Sampling.TopK, err = number(key, v)
	case "frequency_penalty":
		r.Sampling.FrequencyPenalty, err = number(key, v)
	case "presence_penalty":
		r.Sampling.PresencePenalty, err = number(key, v)
	case "seed":
		r.Sampling.Seed, err = number(key, v)
	case "logit_bias":
		r.Sampling.LogitBias, err = rawObject("", key, v)
	case "stop":
		r.Stop, err = stops(v)
	case "response_format":
		err = d.format(v)
	case "verbosity":
		r.Verbosity, err = oneOf(key, v, "low", "medium", "high")
	case "metadata":
		r.Metadata, err = rawObject("", key, v)
	case "service_tier":
		err = d.serviceTier(v)
	case "user":
		d.user = v
	case "safety_identifier":
		d.safety = v
	case "prompt_cache_key":
		r.Cache.Key, err = text("", key, v)
	case "prompt_cache_retention":
		r.Cache.Retention, err = text("", key, v)
	case "prompt_cache_options":
		err = d.cacheOptions(v)
	case "reasoning_effort", "reasoning", "thinking", "enable_thinking", "thinking_budget":
		err = d.reasoning(key, v)
	case "tools":
		err = d.tools(v)
	case "functions":
		err = d.functions(v)
	case "tool_choice":
		d.choice = v
	case "function_call":
		d.legacyChoice = v
	case "parallel_tool_calls":
		var on bool
		on, err = boolean("", key, v)
		r.Parallel = &on
	case "web_search_options":
		err = d.webSearch(v)
	default:
		err = d.refused(key, v)
	}
	return err
}

// refused looks at what cannot be dropped without changing the answer (design/conversion.md, 2), and names the rest.
func (d *reader) refused(key string, v []byte) error {
	switch key {
	case "n":
		if n, ok := rawjson.Int(v); !ok || n != 1 {
			return ir.Refuse(key, "must be 1: several answers cannot be converted")
		}
		return nil
	case "logprobs":
		on, err := boolean("", key, v)
		if err == nil && on {
			err = ir.Refuse(key, "cannot be converted")
		}
		return err
	case "top_logprobs":
		if n, ok := rawjson.Int(v); !ok || n != 0 {
			return ir.Refuse(key, "cannot be converted")
		}
		return nil
	case "modalities":
		list, err := stringList("", key, v)
		for _, m := range list {
			if err == nil && m != "text" {
				err = ir.Refuse(key, "must be [\"text\"]: other output cannot be converted")
			}
		}
		return err
	case "store":
		on, err := boolean("", key, v)
		if on {
			d.lose(key)
		}
		return err
	}
	d.lose(key)
	return nil
}

// settle brings together what has several names.
func (d *reader) settle() (err error) {
	r := d.r
	if r.MaxTokens = d.maxCompletion; r.MaxTokens == 0 && d.maxTokens != 0 {
		r.MaxTokens = d.maxTokens
		d.names[ir.FieldMaxTokens] = "max_tokens"
	}
	if d.safety != nil {
		if r.User, err = text("", "safety_identifier", d.safety); err != nil {
			return err
		}
	}
	if d.user != nil {
		user, err := text("", "user", d.user)
		switch {
		case err != nil:
			return err
		case d.safety == nil:
			r.User = user
			d.names[ir.FieldUser] = "user"
		case user != r.User:
			d.lose("user")
		}
	}
	if d.choice != nil {
		return d.toolChoice(d.choice)
	}
	if d.legacyChoice != nil {
		d.names[ir.FieldToolChoice] = "function_call"
		return d.functionCall(d.legacyChoice)
	}
	return nil
}

func (d *reader) streamOptions(v []byte) error {
	return object("", "stream_options", v, func(key string, v []byte) (err error) {
		path := "stream_options." + key
		on, err := boolean("", path, v)
		switch key {
		case "include_usage":
			d.r.IncludeUsage = on
			return err
		case "include_obfuscation": // never done
			if on {
				d.lose(path)
			}
			return err
		}
		d.lose(path)
		return nil
	})
}

// stops reads one stop sequence or a list of them.
func stops(v []byte) ([]string, error) {
	if isString(v) {
		s, _ := rawjson.String(v)
		return []string{s}, nil
	}
	if !isArray(v) {
		return nil, ir.Refuse("stop", "must be a string or an array of strings")
	}
	return stringList("", "stop", v)
}

// oneOf reads one of a few words.
func oneOf(name string, v []byte, words ...string) (string, error) {
	s, err := text("", name, v)
	if err != nil {
		return "", err
	}
	for _, w := range words {
		if s == w {
			return s, nil
		}
	}
	return "", ir.Refuse(name, "is not a known value")
}

func (d *reader) serviceTier(v []byte) error {
	tier, err := text("", "service_tier", v)
	switch tier {
	case "auto", "default", "flex", "priority", "fast":
		d.r.ServiceTier = tier
	default:
		d.lose("service_tier")
	}
	return err
}

// cacheOptions reads prompt_cache_options: an implicit mark stands at the end of the prompt.
func (d *reader) cacheOptions(v []byte) error {
	var mode string
	var mark ir.CacheMark
	err := object("", "prompt_cache_options", v, func(key string, v []byte) (err error) {
		switch key {
		case "mode":
			mode, err = text("", "prompt_cache_options.mode", v)
		case "ttl":
			mark.TTL, err = text("", "prompt_cache_options.ttl", v)
		default:
			d.lose("prompt_cache_options." + key)
		}
		return err
	})
	if mode == "explicit" {
		d.lose("prompt_cache_options.mode")
	} else {
		d.r.Cache.Auto = &mark
	}
	return err
}

// format reads response_format.
func (d *reader) format(v []byte) error {
	const name = "response_format"
	var kind string
	var schema []byte
	err := object("", name, v, func(key string, v []byte) (err error) {
		switch key {
		case "type":
			kind, err = text("", name+".type", v)
		case "json_schema":
			schema = v
		default:
			d.lose(name + "." + key)
		}
		return err
	})
	if err != nil {
		return err
	}
	f := &d.r.Format
	switch kind {
	case "text":
	case "json_object":
		f.Kind = ir.FormatJSON
	case "json_schema":
		f.Kind = ir.FormatSchema
		return object(name, ".json_schema", schema, func(key string, v []byte) (err error) {
			const at = name + ".json_schema."
			switch key {
			case "name":
				f.Name, err = text(at, key, v)
			case "description":
				f.Description, err = text(at, key, v)
			case "schema":
				f.Schema, err = rawObject(at, key, v)
			case "strict":
				var on bool
				on, err = boolean(at, key, v)
				f.Strict = &on
			default:
				d.lose(at + key)
			}
			return err
		})
	default:
		return ir.Refuse(name+".type", "is not a known value")
	}
	return nil
}

// reasoning reads OpenAI's reasoning_effort, OpenRouter's reasoning, the thinking object of DeepSeek, GLM and Kimi, and
// Qwen's two fields.
func (d *reader) reasoning(key string, v []byte) (err error) {
	r := &d.r.Reasoning
	if key != "reasoning_effort" {
		d.names[ir.FieldReasoning] = key
	}
	switch key {
	case "reasoning_effort":
		return d.effort(key, v)
	case "enable_thinking":
		on, err := boolean("", key, v)
		d.mode(on)
		return err
	case "thinking_budget":
		r.Budget, err = count(key, v)
		return err
	}
	return object("", key, v, func(k string, v []byte) (err error) {
		path := key + "." + k
		switch k {
		case "effort":
			return d.effort(path, v)
		case "max_tokens", "budget_tokens":
			r.Budget, err = count(path, v)
		case "enabled":
			var on bool
			on, err = boolean("", path, v)
			d.mode(on)
		case "exclude":
			var hide bool
			hide, err = boolean("", path, v)
			show := !hide
			r.Show = &show
		case "type":
			var kind string
			kind, err = text("", path, v)
			d.mode(kind != "disabled")
		default:
			d.lose(path)
		}
		return err
	})
}

func (d *reader) effort(name string, v []byte) error {
	level, err := oneOf(name, v, "none", "minimal", "low", "medium", "high", "xhigh", "max")
	if err != nil {
		return err
	}
	if d.mode(level != "none"); level != "none" {
		d.r.Reasoning.Effort = level
	}
	return nil
}

func (d *reader) mode(on bool) {
	if d.r.Reasoning.Mode = ir.ReasoningOff; on {
		d.r.Reasoning.Mode = ir.ReasoningOn
	}
}

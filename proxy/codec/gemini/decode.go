package gemini

import (
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// reader is the decoding of one request.
type reader struct {
	r *ir.Request

	open   []openCall // calls without a result, of the last turn that calls
	closed bool       // something else came after them: the next call begins anew
	signed *ir.State  // belongs to the next call
	more   []byte     // text of the last block of all, which goes on
}

// lose names a member that nothing here has a use for.
func (rd *reader) lose(prefix string, key []byte) { rd.r.LosePath(prefix + string(key)) }

// decodeRequest implements ir.Dialect.
func decodeRequest(in ir.Incoming) (*ir.Request, error) {
	rd := &reader{r: &ir.Request{Model: in.Model, Stream: in.Stream, Names: &fieldNames}}
	var contents, config, toolConfig []byte
	err := object(in.Body, "", func(key, v []byte) error {
		switch string(key) {
		case "contents":
			contents = v
		case "systemInstruction":
			return rd.system(v)
		case "tools":
			return rd.tools(v)
		case "toolConfig":
			toolConfig = v
		case "generationConfig":
			config = v
		case "cachedContent":
			return ir.Refuse("cachedContent", "belongs to another provider")
		case "serviceTier":
			return rd.tier(v)
		case "model":
			if rd.r.Model == "" {
				return text(v, "model", &rd.r.Model)
			}
		default: // safetySettings, labels, store, modelArmorConfig, …
			rd.lose("", key)
		}
		return nil
	})
	if err == nil && toolConfig != nil {
		err = rd.toolConfig(toolConfig)
	}
	if err == nil && config != nil {
		err = rd.config(config)
	}
	if err == nil && contents != nil {
		err = rd.contents(contents)
	}
	if err != nil {
		return nil, err
	}
	return rd.r, nil
}

// system decodes systemInstruction, whatever its role.
func (rd *reader) system(v []byte) error {
	const at = "systemInstruction"
	return object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "parts":
			return parts(v, at, func(i int, v []byte) error {
				b := ir.Block{Kind: ir.Text, At: ir.Element(at+".parts", i)}
				said := false
				err := object(v, b.At, func(key, v []byte) error {
					if string(key) == "text" {
						said = true
						return text(v, b.At+".text", &b.Text)
					}
					rd.lose("systemInstruction.parts.", key)
					return nil
				})
				if err == nil && !said {
					err = ir.Refuse(b.At, "must be text")
				}
				rd.r.System = append(rd.r.System, b)
				return err
			})
		case "role":
		default:
			rd.lose("systemInstruction.", key)
		}
		return nil
	})
}

// parts walks the parts of a content: an array, or one part alone, as some clients write it.
func parts(v []byte, at string, visit func(i int, v []byte) error) error {
	if isObject(v) {
		return visit(0, v)
	}
	return array(v, at+".parts", visit)
}

// tier decodes serviceTier.
func (rd *reader) tier(v []byte) error {
	var s string
	if err := text(v, "serviceTier", &s); err != nil {
		return err
	}
	switch s = strings.TrimPrefix(strings.ToLower(s), "service_tier_"); s {
	case "standard":
		rd.r.ServiceTier = "default"
	case "flex", "priority":
		rd.r.ServiceTier = s
	case "unspecified", "":
	default:
		rd.r.Lose(ir.FieldServiceTier)
	}
	return nil
}

// config decodes generationConfig.
func (rd *reader) config(v []byte) error {
	const at = "generationConfig."
	r := rd.r
	var mime string
	var schema []byte
	err := object(v, "generationConfig", func(key, v []byte) error {
		path := at + string(key)
		switch string(key) {
		case "temperature":
			return number(v, path, &r.Sampling.Temperature)
		case "topP":
			return number(v, path, &r.Sampling.TopP)
		case "topK":
			return number(v, path, &r.Sampling.TopK)
		case "seed":
			return number(v, path, &r.Sampling.Seed)
		case "presencePenalty":
			return number(v, path, &r.Sampling.PresencePenalty)
		case "frequencyPenalty":
			return number(v, path, &r.Sampling.FrequencyPenalty)
		case "maxOutputTokens":
			if err := whole(v, path, &r.MaxTokens); err != nil || r.MaxTokens >= 0 {
				return err
			}
			return ir.Refuse(path, "must not be negative")
		case "stopSequences":
			return texts(v, path, &r.Stop)
		case "responseMimeType":
			return text(v, path, &mime)
		case "responseSchema", "responseJsonSchema":
			if !isObject(v) {
				return ir.Refuse(path, "must be an object")
			}
			schema = v
			return nil
		case "thinkingConfig":
			return rd.thinking(v, path)
		}
		return rd.refusable(key, v, path)
	})
	if err != nil {
		return err
	}
	return rd.format(mime, schema)
}

// refusable decodes the members of generationConfig without which the answer would be another one: they are refused
// where they ask for more than other dialects have (conversion.md, 2).
func (rd *reader) refusable(key, v []byte, path string) error {
	switch string(key) {
	case "candidateCount":
		var n int64
		if err := whole(v, path, &n); err != nil {
			return err
		}
		if n > 1 {
			return ir.Refuse(path, "more than one candidate cannot be had from this provider")
		}
	case "responseLogprobs":
		var on bool
		if err := boolean(v, path, &on); err != nil {
			return err
		}
		if on {
			return ir.Refuse(path, "log probabilities cannot be had from this provider")
		}
	case "logprobs":
		var n int64
		if err := whole(v, path, &n); err != nil {
			return err
		}
		if n > 0 {
			return ir.Refuse(path, "log probabilities cannot be had from this provider")
		}
	case "responseModalities":
		var list []string
		if err := texts(v, path, &list); err != nil {
			return err
		}
		for i, m := range list {
			if !strings.EqualFold(m, "TEXT") && !strings.EqualFold(m, "MODALITY_UNSPECIFIED") {
				return ir.Refuse(ir.Element(path, i), "only text can be had from this provider")
			}
		}
	default: // mediaResolution, speechConfig, imageConfig, …
		rd.lose("generationConfig.", key)
	}
	return nil
}

// format settles the form of the answer. A schema without a type means JSON.
func (rd *reader) format(mime string, schema []byte) error {
	f := &rd.r.Format
	switch mime {
	case "application/json", "":
		if schema != nil {
			f.Kind, f.Schema = ir.FormatSchema, rd.schema(schema)
		} else if mime != "" {
			f.Kind = ir.FormatJSON
		}
	case "text/plain":
		if schema != nil {
			rd.r.LosePath("generationConfig.responseSchema")
		}
	default: // text/x.enum: the bare word of an enumeration
		return ir.Refuse("generationConfig.responseMimeType", "must be text/plain or application/json")
	}
	return nil
}

// thinking decodes thinkingConfig.
func (rd *reader) thinking(v []byte, at string) error {
	re := &rd.r.Reasoning
	var level string
	err := object(v, at, func(key, v []byte) error {
		switch string(key) {
		case "includeThoughts":
			var show bool
			re.Show = &show
			return boolean(v, at+".includeThoughts", &show)
		case "thinkingBudget":
			var n int64
			if err := whole(v, at+".thinkingBudget", &n); err != nil {
				return err
			}
			switch {
			case n == 0:
				re.Mode = ir.ReasoningOff
			case n < 0:
				re.Mode, re.Budget = ir.ReasoningOn, -1
			default:
				re.Mode, re.Budget = ir.ReasoningOn, n
			}
		case "thinkingLevel":
			return text(v, at+".thinkingLevel", &level)
		default:
			rd.lose("generationConfig.thinkingConfig.", key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch level = strings.ToLower(level); level {
	case "minimal", "low", "medium", "high", "xhigh", "max":
		re.Mode, re.Effort = ir.ReasoningOn, level
	case "", "thinking_level_unspecified":
	default:
		rd.r.LosePath("generationConfig.thinkingConfig.thinkingLevel")
	}
	if re.Mode == ir.ReasoningUnset && re.Show != nil && *re.Show { // these models reason by default
		re.Mode, re.Budget = ir.ReasoningOn, -1
	}
	return nil
}

// rawText is a decoded string member, "" where it is none.
func rawText(v []byte) string {
	s, _ := rawjson.String(v)
	return s
}

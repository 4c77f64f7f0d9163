package codectest

import (
	"slices"
	"strings"

	"coding-proxy/proxy/ir"
)

// The dialects of the table.
const (
	anthropic = "anthropic"
	chat      = "openai-chat"
	responses = "openai-responses"
	gemini    = "gemini"
)

// Losses is the table. The order is that in which the rows apply.
func Losses() []Loss {
	return slices.Concat(historyLosses(), toolLosses(), settingLosses(), markLosses())
}

func markLosses() []Loss {
	return []Loss{
		{To: chat, What: "a mark of a result is one of its text", Why: "2.1: marks are of parts", Apply: func(r *ir.Request, _ *Way) (changed bool) {
			eachBlock(r, func(b *ir.Block) {
				if n := len(b.Content); b.Kind == ir.ToolResult && b.Cache != nil && n > 0 && b.Content[n-1].Cache == nil {
					b.Content[n-1].Cache, b.Cache, changed = b.Cache, nil, true
				}
			})
			return changed
		}},
		{What: "cache marks that the target's model does not take", Why: "5.2 cache hints", Names: []ir.Field{ir.FieldCacheMark}, Either: marksGone},
		{What: "times of cache marks become the nearest that is not shorter", Why: "5.2 cache hints", Either: marksMoved},
		{What: "a mark of the whole request for who says none", Why: "5.2 cache hints: else auto", Either: func(r, back *ir.Request, w *Way) bool {
			added := (w.From == anthropic || w.To == anthropic) && r.Cache.Auto == nil && back.Cache.Auto != nil
			if added {
				r.Cache.Auto = back.Cache.Auto
			}
			return added
		}},
	}
}

func historyLosses() []Loss {
	return []Loss{
		{What: "reasoning of earlier turns, signatures of calls", Why: "5.4: opaque state goes back to its owner alone; here nobody is",
			Names: []ir.Field{ir.FieldThinking}, Apply: dropThinking},
		{To: anthropic, What: "JSON mode becomes an instruction", Why: "5.2 JSON mode", Names: []ir.Field{ir.FieldFormat}, Either: func(r, back *ir.Request, _ *Way) bool {
			return r.Format.Kind == ir.FormatJSON && back.Format.Kind == ir.FormatText && set(&r.Format.Kind, ir.FormatText) && instructed(r, back)
		}},
		{To: responses, What: "boundaries of system blocks", Why: "5.2 system: instructions are one string, joined by blank lines", Apply: joinSystem},
		{To: responses, What: "JSON mode wants the word in the conversation", Why: "3.1 text.format", Either: func(r, back *ir.Request, _ *Way) bool {
			return r.Format.Kind == ir.FormatJSON && instructed(r, back)
		}},
		{From: responses, What: "boundaries of system blocks", Why: "5.2 system: instructions are one string, joined by blank lines", Apply: joinSystem},
		{From: responses, What: "JSON mode wants the word in the conversation", Why: "3.1 text.format", Either: func(r, back *ir.Request, w *Way) bool {
			return r.Format.Kind == ir.FormatJSON && len(back.System) > len(r.System) && instructed(r, back)
		}},
		{To: gemini, What: "system messages within become the user's reminder", Why: "C9", Apply: remind},
		{To: anthropic, What: "system messages within become the user's reminder for models before 5", Why: "C9", Apply: func(r *ir.Request, w *Way) bool {
			return !strings.HasSuffix(w.ToModel, "-5-5") && remind(r, w)
		}},
		{From: anthropic, What: "system messages within become the user's reminder for models before 5", Why: "C9", Apply: func(r *ir.Request, w *Way) bool {
			return !strings.HasSuffix(w.FromModel, "-5-5") && remind(r, w)
		}},
		{What: "results stand in the order of their calls", Why: "5.2 orphan/duplicate/missing results", Apply: sortResults},
		{To: responses, What: "plain-text documents become text with the title before it", Why: "5.2 PDF / text docs", Apply: documents("", "\n\n")},
		{To: chat, What: "a PDF without a name gets one", Why: "2.1 file{file_data, filename}", Apply: titled},
		{To: responses, What: "a PDF without a name gets one", Why: "3.2 input_file", Apply: titled},
		{To: chat, What: "plain-text documents become text with the title before it", Why: "5.2 PDF / text docs", Apply: documents("[document", "]\n")},
		{To: gemini, What: "plain-text documents become text with the title before it", Why: "5.2 PDF / text docs", Apply: documents("Document", "\n\n")},
		{To: gemini, What: "titles and file names of PDFs", Why: "4.2 inlineData", Names: []ir.Field{ir.FieldDocument}, Apply: untitle},
		{From: gemini, What: "titles and file names of PDFs", Why: "4.2 inlineData", Apply: untitle},
		{From: chat, What: "a PDF without a name gets one", Why: "2.1 file{file_data, filename}", Apply: titled},
		{From: responses, What: "a PDF without a name gets one", Why: "3.2 input_file", Apply: titled},
		{To: gemini, What: "details of images", Why: "5.2 image detail", Names: []ir.Field{ir.FieldDetail}, Apply: noDetail},
		{To: anthropic, What: "details of images", Why: "5.2 image detail", Names: []ir.Field{ir.FieldDetail}, Apply: noDetail},
		{To: gemini, What: "boundaries of texts in results", Why: "5.2 result shape: {output: text}", Apply: joinResults("\n")},
		{To: gemini, What: "text behind calls stands before them", Why: "CNV-012: calls are last in their content, results follow straight", Apply: textFirst},
		{To: chat, What: "text behind calls stands before them", Why: "5.2 tool call history", Apply: textFirst},
		{To: gemini, What: "boundaries of the model's texts", Why: "4.5: clients send the pieces of a stream back as they came", Apply: joinModelTexts},
		{To: chat, What: "images in results follow in the user's message", Why: "5.2 tool result", Either: imagesOut},
		{To: gemini, What: "images in results of Gemini 2 follow in the user's message", Why: "5.2 tool result", Either: func(r, back *ir.Request, w *Way) bool {
			return w.ToModel == "gemini-2.5-pro" && imagesOut(r, back, w)
		}},
		{To: anthropic, What: "an error without words gets some", Why: "1.3: an error's content must not be empty", Apply: filler},
		{From: anthropic, What: "an error without words gets some", Why: "1.3: an error's content must not be empty", Apply: filler},
	}
}

func toolLosses() []Loss {
	hosted := func(r, back *ir.Request, _ *Way) bool {
		is := func(t ir.Tool) bool { return t.Kind == ir.ToolHosted }
		n := len(r.Tools)
		if !slices.ContainsFunc(back.Tools, is) {
			r.Tools = slices.DeleteFunc(r.Tools, is)
		}
		return n != len(r.Tools)
	}
	details := func(r, back *ir.Request, _ *Way) (changed bool) {
		for i := range min(len(r.Tools), len(back.Tools)) {
			a, b := &r.Tools[i].Hosted, &back.Tools[i].Hosted
			if t := &r.Tools[i]; t.Kind == ir.ToolHosted && a.Type == b.Type && Normalize(&ir.Request{Tools: []ir.Tool{*t}})[2] != Normalize(&ir.Request{Tools: []ir.Tool{back.Tools[i]}})[2] {
				*a, r.Tools[i].Name, changed = *b, back.Tools[i].Name, true
			}
		}
		return changed
	}
	return []Loss{
		{What: "a choice among some tools leaves the others out", Why: "5.2 tool choice", Either: func(r, back *ir.Request, _ *Way) bool {
			return len(back.Choice.Names) == 0 && narrow(r)
		}},
		{What: "one call at a time, said with the choice auto", Why: "5.2 parallel off", Either: func(r, back *ir.Request, _ *Way) bool {
			return r.Parallel != nil && r.Choice.Mode == ir.ChoiceUnset && back.Choice.Mode == ir.ChoiceAuto && set(&r.Choice.Mode, ir.ChoiceAuto)
		}},
		{To: anthropic, What: "one call at a time where none may be made", Why: "1.4: {type: none} has no flag", Apply: func(r *ir.Request, _ *Way) bool {
			return r.Choice.Mode == ir.ChoiceNone && allParallel(r)
		}},
		{What: "one call at a time where there are no tools", Why: "1.4, 2.1: refused without tools", Apply: func(r *ir.Request, _ *Way) bool {
			return len(r.Tools) == 0 && allParallel(r)
		}},
		{What: "parallel calls are what is meant by nothing", Why: "5.2 parallel off: true: omitted", Either: func(r, back *ir.Request, _ *Way) bool {
			omitted := r.Parallel != nil && *r.Parallel && back.Parallel == nil
			if omitted {
				r.Parallel = nil
			}
			return omitted
		}},
		{To: gemini, What: "a call of the only tool that is allowed is a call of this one", Why: "5.2 tool choice: ANY with names", Apply: func(r *ir.Request, _ *Way) bool {
			return len(r.Choice.Names) == 1 && r.Choice.Mode == ir.ChoiceRequired && set(&r.Choice.Mode, ir.ChoiceOne)
		}},
		{To: gemini, What: "a function without parameters has no schema", Why: "4.2 tools", Apply: noSchema},
		{To: anthropic, What: "a function without a schema takes an empty object", Why: "5.2 tool definition", Apply: emptySchema},
		{From: anthropic, What: "a function without a schema takes an empty object", Why: "5.2 tool definition", Apply: emptySchema},
		{From: gemini, What: "a function without parameters has no schema", Why: "4.2 tools", Apply: noSchema},
		{From: chat, What: "a function without a schema takes an empty object", Why: "5.2 tool definition", Apply: emptySchema},
		{From: responses, What: "a function without a schema takes an empty object", Why: "5.2 tool definition", Apply: emptySchema},
		{To: anthropic, What: "what a strict schema cannot say moves to the description", Why: "1.5", Either: strictSchemas},
		{To: anthropic, What: "strict false is what it is anyway", Why: "1.4", Apply: func(r *ir.Request, _ *Way) bool { return strictness(r, ptr(false), nil) }},
		{To: responses, What: "strict not said is said to be false", Why: "5.2 strict: R would try strict", Apply: func(r *ir.Request, w *Way) bool {
			return w.From != anthropic && w.From != gemini && strictness(r, nil, ptr(false))
		}},
		{To: gemini, What: "strict false is what it is anyway", Why: "4.2 tools", Apply: func(r *ir.Request, _ *Way) bool { return strictness(r, ptr(false), nil) }},
		{To: gemini, What: "strict tools", Why: "5.2 strict: VALIDATED mode at most", Names: []ir.Field{ir.FieldStrict}, Apply: func(r *ir.Request, _ *Way) bool { return strictness(r, ptr(true), nil) }},
		{From: responses, What: "strict not said is said to be false", Why: "5.2 strict: R would try strict", Apply: func(r *ir.Request, w *Way) bool {
			return strictness(r, nil, ptr(false))
		}},
		{What: "grammars become words in the description", Why: "5.2 custom/freeform tool", Either: grammarText},
		{To: chat, What: "web search", Why: "5.2 server tools: web search between A, R and G", Names: []ir.Field{ir.FieldTools}, Either: hosted},
		{To: gemini, What: "web search beside functions", Why: "4.2 tools", Names: []ir.Field{ir.FieldTools}, Either: hosted},
		{What: "a choice where there are no tools", Why: "1.4, 2.1: refused without tools", Apply: func(r *ir.Request, w *Way) bool {
			none := !slices.ContainsFunc(r.Tools, func(t ir.Tool) bool { return t.Kind != ir.ToolHosted || w.To != gemini })
			return none && set(&r.Choice.Mode, ir.ChoiceUnset)
		}},
		{To: gemini, What: "details of web search", Why: "4.2 googleSearch", Names: []ir.Field{ir.FieldTools}, Either: details},
		{To: responses, What: "how often web search may be used", Why: "3.2 tools", Path: "max_uses", Apply: func(r *ir.Request, _ *Way) (changed bool) {
			for i := range r.Tools {
				changed = set(&r.Tools[i].Hosted.MaxUses, 0) || changed
			}
			return changed
		}},
		{From: responses, What: "namespaces are a part of the names", Why: "5.2 namespace tools: flatten ns__name", Apply: flatten},
		{To: gemini, What: "$schema of schemas", Why: "C6", Apply: noDollarSchema},
		{From: gemini, What: "$schema of schemas", Why: "C6", Apply: noDollarSchema},
		{To: gemini, What: "what Gemini knows not of schemas moves to the description", Why: "C6, 4.2", Either: sameProperties},
	}
}

func settingLosses() []Loss {
	return slices.Concat(cacheLosses(), formatLosses(), []Loss{
		{From: chat, What: "stream_options.include_usage", Why: "5.2 stream usage flag: an upstream is always asked for it",
			Apply: func(r *ir.Request, _ *Way) bool { return set(&r.IncludeUsage, r.Stream) }},
		{To: anthropic, What: "no maximum becomes the model's", Why: "C8", Apply: func(r *ir.Request, w *Way) bool {
			most := map[string]int64{"claude-opus-5-5": 128000, "claude-sonnet-4-5": 64000}[w.ToModel]
			return r.MaxTokens == 0 && set(&r.MaxTokens, most)
		}},
		{To: responses, What: "stop sequences", Why: "5.2 stop: none in Responses", Names: []ir.Field{ir.FieldStop},
			Apply: func(r *ir.Request, _ *Way) bool { return clear(&r.Stop) }},
		{What: "reasoning off and reasoning not said, where a model knows no off", Why: "5.5", Either: func(r, back *ir.Request, _ *Way) bool {
			return !reasons(r) && !reasons(back) && takeLevel(r, back)
		}},
		{What: "reasoning as the model likes is what it does by itself", Why: "5.5 auto = -1", Either: func(r, back *ir.Request, _ *Way) bool {
			q := &r.Reasoning
			return q.Mode == ir.ReasoningOn && q.Budget <= 0 && q.Effort == "" && back.Reasoning.Mode == ir.ReasoningUnset && takeLevel(r, back)
		}},
		{What: "the level of reasoning becomes the nearest that the model lists", Why: "5.5; its table is tested by itself", Either: levels},
		{What: "reasoning that the model, its tools or its history do not allow", Why: "5.2 tool choice, C10", Names: []ir.Field{ir.FieldReasoning},
			Path: "output_config.effort", Either: func(r, back *ir.Request, _ *Way) bool {
				return takeLevel(r, back)
			}},
		{What: "whether reasoning is shown, and how", Why: "5.5 includeThoughts: where the client can show it", Either: shown},
		{To: anthropic, What: "penalties, seed", Why: "5.2: none", Names: []ir.Field{ir.FieldFrequencyPenalty, ir.FieldPresencePenalty, ir.FieldSeed}, Apply: dropPenalties},
		{To: responses, What: "penalties, seed", Why: "5.2: none", Names: []ir.Field{ir.FieldFrequencyPenalty, ir.FieldPresencePenalty, ir.FieldSeed}, Apply: dropPenalties},
		{To: anthropic, What: "logit_bias", Why: "5.2", Names: []ir.Field{ir.FieldLogitBias}, Apply: dropBias},
		{To: responses, What: "logit_bias", Why: "3.1", Names: []ir.Field{ir.FieldLogitBias}, Apply: dropBias},
		{To: gemini, What: "logit_bias", Why: "4.2", Names: []ir.Field{ir.FieldLogitBias}, Apply: dropBias},
		{To: chat, What: "top_k", Why: "5.2 top_k to C and R: dropped", Names: []ir.Field{ir.FieldTopK}, Apply: dropTopK},
		{To: responses, What: "top_k", Why: "5.2 top_k to C and R: dropped", Names: []ir.Field{ir.FieldTopK}, Apply: dropTopK},
		{What: "1 is the temperature and top_p of reasoning models anyway", Why: "5.2 temperature", Either: func(r, back *ir.Request, w *Way) (changed bool) {
			one := func(at *string, theirs string) {
				if (*at == "1" || *at == "1.0") && theirs == "" && strict(w) {
					*at, changed = "", true
				}
			}
			one(&r.Sampling.Temperature, back.Sampling.Temperature)
			one(&r.Sampling.TopP, back.Sampling.TopP)
			return changed
		}},
		sampler("temperature", ir.FieldTemperature, func(s *ir.Sampling) *string { return &s.Temperature }),
		sampler("top_p", ir.FieldTopP, func(s *ir.Sampling) *string { return &s.TopP }),
		sampler("top_k", ir.FieldTopK, func(s *ir.Sampling) *string { return &s.TopK }),
		sampler("frequency_penalty", ir.FieldFrequencyPenalty, func(s *ir.Sampling) *string { return &s.FrequencyPenalty }),
		sampler("presence_penalty", ir.FieldPresencePenalty, func(s *ir.Sampling) *string { return &s.PresencePenalty }),
		{What: "logit_bias that the model refuses", Why: "C4", Names: []ir.Field{ir.FieldLogitBias}, Either: func(r, back *ir.Request, w *Way) bool {
			return strict(w) && len(back.Sampling.LogitBias) == 0 && dropBias(r, w)
		}},
		{To: anthropic, What: "verbosity", Why: "5.2 verbosity: C and R alone", Names: []ir.Field{ir.FieldVerbosity}, Apply: dropVerbosity},
		{To: gemini, What: "verbosity", Why: "5.2 verbosity: C and R alone", Names: []ir.Field{ir.FieldVerbosity}, Apply: dropVerbosity},
		{To: chat, What: "verbosity of models before gpt-5", Why: "C4", Names: []ir.Field{ir.FieldVerbosity}, Apply: func(r *ir.Request, w *Way) bool {
			return w.ToModel == "gpt-4.1" && dropVerbosity(r, w)
		}},
		{To: gemini, What: "user", Why: "5.2 user: labels of Vertex", Names: []ir.Field{ir.FieldUser}, Apply: func(r *ir.Request, _ *Way) bool { return set(&r.User, "") }},
		{What: "ids of users that are too long become their hash", Why: "5.2 user", Either: func(r, back *ir.Request, _ *Way) bool {
			return len(r.User) > 64 && len(back.User) == 64 && set(&r.User, back.User)
		}},
		{To: anthropic, What: "metadata", Why: "5.2 metadata map", Names: []ir.Field{ir.FieldMetadata}, Apply: func(r *ir.Request, _ *Way) bool { return clear(&r.Metadata) }},
		{To: gemini, What: "metadata", Why: "5.2 metadata map", Names: []ir.Field{ir.FieldMetadata}, Apply: func(r *ir.Request, _ *Way) bool { return clear(&r.Metadata) }},
		{To: anthropic, What: "an answer longer than the model's longest", Why: "5.2 max tokens: clamp", Names: []ir.Field{ir.FieldMaxTokens}, Apply: func(r *ir.Request, w *Way) bool {
			return w.ToModel == "claude-sonnet-4-5" && r.MaxTokens > 64000 && set(&r.MaxTokens, 64000)
		}},
		{To: gemini, What: "service tier auto is what it is anyway", Why: "5.2 service tier", Apply: func(r *ir.Request, _ *Way) bool { return r.ServiceTier == "auto" && set(&r.ServiceTier, "") }},
		{To: anthropic, What: "service tier priority is its auto", Why: "5.2 service tier", Apply: func(r *ir.Request, _ *Way) bool { return r.ServiceTier == "priority" && set(&r.ServiceTier, "auto") }},
		{From: gemini, What: "service tier auto is what it is anyway", Why: "5.2 service tier", Apply: func(r *ir.Request, _ *Way) bool { return r.ServiceTier == "auto" && set(&r.ServiceTier, "") }},
		{To: anthropic, What: "service tier flex", Why: "5.2 service tier", Names: []ir.Field{ir.FieldServiceTier}, Apply: func(r *ir.Request, _ *Way) bool { return r.ServiceTier == "flex" && set(&r.ServiceTier, "") }},
		{To: gemini, What: "parallel calls switched off", Why: "5.2 parallel off: no switch", Names: []ir.Field{ir.FieldParallel}, Apply: func(r *ir.Request, _ *Way) bool {
			off := r.Parallel != nil && !*r.Parallel
			r.Parallel = nil
			return off
		}},
	})
}

func cacheLosses() []Loss {
	return []Loss{
		{To: anthropic, What: "cache key and retention", Why: "5.2 cache hints", Names: []ir.Field{ir.FieldCacheKey}, Apply: dropKey},
		{To: gemini, What: "cache key and retention", Why: "5.2 cache hints", Names: []ir.Field{ir.FieldCacheKey}, Apply: dropKey},
		{From: anthropic, What: "the cache key that is the session within user_id", Why: "5.2 user / session", Either: func(r, back *ir.Request, _ *Way) bool {
			return r.User != "" && set(&r.Cache.Key, back.Cache.Key)
		}},
	}
}

func formatLosses() []Loss {
	return []Loss{
		{To: anthropic, What: "name, description and strictness of the answer's schema", Why: "5.2 JSON schema: A has none", Apply: plainFormat},
		{To: gemini, What: "name, description and strictness of the answer's schema", Why: "5.2 JSON schema", Apply: plainFormat},
		{What: "what the target's schemas cannot say moves to the description", Why: "1.5, C6", Either: func(r, back *ir.Request, w *Way) bool {
			moved := (w.To == anthropic && strings.Contains(Canonical(back.Format.Schema), `"{m`) || w.To == gemini && strings.Contains(Canonical(back.Format.Schema), ` characters`)) && Canonical(r.Format.Schema) != Canonical(back.Format.Schema)
			if moved {
				r.Format.Schema = back.Format.Schema
			}
			return moved
		}},
		{To: anthropic, What: "objects in schemas are closed where strict", Why: "1.5: additionalProperties false", Either: closed},
	}
}

// Refusals is the table of what is refused.
func Refusals() []Refusal {
	media := func(kind ir.BlockKind, is func(m *ir.Media) bool) func(*ir.Request, *Way) bool {
		return func(r *ir.Request, _ *Way) (found bool) {
			eachBlock(r, func(b *ir.Block) { found = found || b.Kind == kind && is(&b.Media) })
			return found
		}
	}
	any := func(*ir.Media) bool { return true }
	return []Refusal{
		{anthropic, "audio", "5.2 audio, C2", media(ir.Audio, any)},
		{responses, "audio", "5.2 audio, C2", media(ir.Audio, any)},
		{gemini, "images by address", "5.2 image url", media(ir.Image, func(m *ir.Media) bool { return m.URL != "" })},
		{chat, "more than four stop sequences", "5.2 stop", func(r *ir.Request, _ *Way) bool { return len(r.Stop) > 4 }},
		{gemini, "more than five stop sequences", "5.2 stop", func(r *ir.Request, _ *Way) bool { return len(r.Stop) > 5 }},
	}
}

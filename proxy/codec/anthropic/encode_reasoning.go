package anthropic

import "coding-proxy/proxy/ir"

// minBudget is the least that the API takes; usualBudget is given where the client says nothing (the "medium" of
// facts/protocols.md 5.5).
const (
	minBudget   = 1024
	usualBudget = 8192
)

// reason settles whether the model reasons, and how.
func (e *encoding) reason() {
	re := &e.r.Reasoning
	on := re.Mode == ir.ReasoningOn || re.Mode == ir.ReasoningUnset && !e.own && (re.Effort != "" || re.Budget != 0)
	if re.Mode != ir.ReasoningOff || e.own {
		e.setEffort()
	}
	if !on {
		return
	}
	loop, reasoned := toolLoop(e.out)
	prefill := len(e.out) > 0 && e.out[len(e.out)-1].role == ir.Assistant
	switch {
	case !e.f.thinks():
	case e.forced(): // the API refuses both together
	case loop && !reasoned: // the block is gone, or its provider never gave one: conversion.md 10
	case prefill: // the answer must begin with reasoning
	case !e.f.adaptive() && !e.setBudget():
	default:
		e.thinks = true
		return
	}
	e.r.Lose(ir.FieldReasoning)
}

func (e *encoding) forced() bool {
	return e.r.Choice.Mode == ir.ChoiceRequired || e.r.Choice.Mode == ir.ChoiceOne
}

// setBudget makes a budget of what the client says: below max_tokens, and one that only an effort stands for leaves a
// quarter for the answer itself. It reports whether there is room for one.
func (e *encoding) setBudget() bool {
	re := &e.r.Reasoning
	budget, most := re.Budget, e.maxTokens-1
	if budget <= 0 {
		if budget = ir.BudgetOf(re.Effort); budget == 0 {
			budget = usualBudget
		}
		most = min(most, e.maxTokens/4*3)
	}
	e.budget = min(max(budget, minBudget), max(most, min(minBudget, e.maxTokens-1)))
	return e.budget >= minBudget
}

// setEffort makes a level that the model knows: xhigh came with 4.7, max with 4.6.
func (e *encoding) setEffort() {
	re := &e.r.Reasoning
	effort := re.Effort
	if effort == "" && e.f.adaptive() {
		effort = ir.EffortOf(re.Budget)
	}
	switch {
	case effort == "minimal":
		effort = "low"
	case effort == "xhigh" && e.f.version < 407, effort == "max" && e.f.version < 406:
		effort = "high"
	}
	if e.f.effort() {
		e.effort = effort
	} else if effort != "" && e.own {
		e.r.LosePath("output_config.effort")
	}
}

// writeReasoning writes thinking and output_config.
func (e *encoding) writeReasoning() {
	re, w := &e.r.Reasoning, &e.w
	switch {
	case e.thinks:
		w.Key("thinking")
		w.Open('{')
		if e.f.adaptive() {
			w.Field("type", "adaptive")
		} else {
			w.Field("type", "enabled")
			w.Number("budget_tokens", e.budget)
		}
		if show := re.Show; e.f.claude && (show != nil || re.Summary != "") {
			if show == nil || *show {
				w.Field("display", "summarized")
			} else {
				w.Field("display", "omitted")
			}
		}
		w.Close('}')
	case re.Mode != ir.ReasoningUnset && e.f.thinks(): // also where it was wanted and cannot be: the default may be on
		w.Key("thinking")
		w.Open('{')
		w.Field("type", "disabled")
		w.Close('}')
	}
	schema := e.r.Format.Kind == ir.FormatSchema && e.f.format()
	if e.effort == "" && !schema {
		return
	}
	w.Key("output_config")
	w.Open('{')
	w.Optional("effort", e.effort)
	if schema {
		w.Key("format")
		w.Open('{')
		w.Field("type", "json_schema")
		w.Key("schema")
		w.Raw(e.formatSchema())
		w.Close('}')
		if e.r.Format.Strict != nil && !*e.r.Format.Strict {
			e.r.Lose(ir.FieldFormat) // it is always strict here
		}
	}
	w.Close('}')
}

// formatText is the instruction that stands for a form of the answer which the model cannot be held to.
func (e *encoding) formatText() string {
	switch f := &e.r.Format; {
	case f.Kind == ir.FormatJSON:
		e.r.Lose(ir.FieldFormat)
		return "Answer with one JSON object and nothing else: no text before or after it, no code fence."
	case f.Kind == ir.FormatSchema && !e.f.format():
		e.r.Lose(ir.FieldFormat)
		return "Answer with one JSON value that is valid against this JSON Schema and with nothing else: no text before or after it, no code fence.\n\n" + string(f.Schema)
	}
	return ""
}

package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// routed is the answer of /admin/route.
type routed struct {
	Requested string  `json:"requested_model"`
	Resolved  string  `json:"resolved_model"`
	Group     *string `json:"group"`
	Tiers     []struct {
		Name  string
		Gate  *string
		Until *time.Time
		Keys  []struct {
			ID            string
			UpstreamModel *string `json:"upstream_model"`
			Gate          *string
			Until         *time.Time
			Probability   float64
		}
	}
	Answer struct {
		Key, Tier, Error string
		Converted        bool
		Status           int
		RetryAfter       int `json:"retry_after"`
	}
}

// route says where a request would go, without sending it.
func route(args []string, env Environment) int {
	fs := newFlags("route", "", "Says where the running instance would send a request now: each tier and key in order, with the gate that refuses it, "+
		"or its chance.\nNothing is sent or changed.", env)
	src := sourceFlags(fs, env)
	model := fs.String("model", "", "the `name` of the model that a client would ask for")
	caller := fs.String("caller", "", "the `code` of the request key (default: one that may use all keys)")
	session := fs.String("session", "", "the `id` of the conversation, as its client sends it (default: a new one)")
	dialect := fs.String("dialect", "", "the `name` of the client's dialect: anthropic, openai-chat, openai-responses or gemini (default: anthropic)")
	asJSON := fs.Bool("json", false, "print JSON")
	if code, done := parse(fs, args, env); done {
		return code
	}
	if *model == "" {
		fmt.Fprintln(env.Stderr, "coding-proxy route: --model is missing; see coding-proxy route -h")
		return exitUsage
	}
	i, absent := present(locate(src, env))
	if i == nil {
		fmt.Fprintf(env.Stderr, "coding-proxy route: %s; the state of a running instance decides%s\n", absent, stranger(src))
		return exitAbsent
	}
	q := url.Values{"model": {*model}}
	if *caller != "" {
		q.Set("caller", *caller)
	}
	if *session != "" {
		q.Set("session", *session)
	}
	if *dialect != "" {
		q.Set("dialect", *dialect)
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	body, err := connect(i).call(ctx, http.MethodGet, "/admin/route?"+q.Encode())
	var r routed
	if err == nil {
		err = json.Unmarshal(body, &r)
	}
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy route: %v\n", err)
		return exitFailed
	}
	if *asJSON {
		printJSON(env.Stdout, json.RawMessage(body))
	} else {
		r.print(env.Stdout)
	}
	if r.Answer.Error != "" {
		return exitFailed
	}
	return exitDone
}

func (r *routed) print(w io.Writer) {
	fmt.Fprintf(w, "model  %s", r.Requested)
	if r.Resolved != r.Requested {
		fmt.Fprintf(w, ", resolved to %s", r.Resolved)
	}
	if r.Group != nil {
		fmt.Fprintf(w, " (group %s)", *r.Group)
	}
	fmt.Fprintln(w)
	for _, t := range r.Tiers {
		fmt.Fprintf(w, "\ntier   %s%s\n", t.Name, refusedUntil(t.Gate, t.Until))
		for _, k := range t.Keys {
			text := "could serve"
			switch {
			case k.Gate != nil:
				text = refusedUntil(k.Gate, k.Until)[2:]
			case k.Probability > 0:
				text = fmt.Sprintf("%.1f %%", 100*k.Probability)
			}
			if k.UpstreamModel != nil && *k.UpstreamModel != r.Resolved {
				text += ", as " + *k.UpstreamModel
			}
			fmt.Fprintf(w, "  %-20s %s\n", k.ID, text)
		}
	}
	fmt.Fprintln(w)
	switch a := r.Answer; {
	case a.Error == "":
		how := ""
		if a.Converted {
			how = ", converted"
		}
		fmt.Fprintf(w, "likeliest: %s in %s%s\n", a.Key, a.Tier, how)
	case a.RetryAfter > 0:
		fmt.Fprintf(w, "answer: %d %s; try again in %d s\n", a.Status, a.Error, a.RetryAfter)
	default:
		fmt.Fprintf(w, "answer: %d %s\n", a.Status, a.Error)
	}
}

// refusedUntil renders a gate, ": cooling until 12:03:04"; nothing for an open one.
func refusedUntil(gate *string, until *time.Time) string {
	if gate == nil {
		return ""
	}
	if until == nil {
		return ": " + *gate
	}
	return fmt.Sprintf(": %s until %s", *gate, moment(*until))
}

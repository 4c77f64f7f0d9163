package demo

import (
	"net/http"
	"slices"
	"strings"
)

// The names of the dialects, as Options.Dialects has them.
const (
	anthropic       = "anthropic"
	openAIChat      = "openai-chat"
	openAIResponses = "openai-responses"
	gemini          = "gemini"
)

// speaks reports whether the provider has the dialect.
func (p *Provider) speaks(dialect string) bool {
	return len(p.options.Dialects) == 0 || slices.Contains(p.options.Dialects, dialect)
}

// speaksOpenAI holds for the endpoints that both OpenAI dialects have.
func (p *Provider) speaksOpenAI() bool { return p.speaks(openAIChat) || p.speaks(openAIResponses) }

// guess tells the dialect of a request whose path does not: by its headers, among those that the provider speaks.
func (p *Provider) guess(r *http.Request) string {
	order := []string{anthropic, openAIChat, openAIResponses, gemini}
	switch {
	case r.Header.Get("anthropic-version") != "" || r.Header.Get("x-api-key") != "":
	case r.Header.Get("x-goog-api-key") != "" || r.URL.Query().Has("key") || strings.Contains(r.URL.Path, "/v1beta/"):
		order = []string{gemini, anthropic, openAIChat, openAIResponses}
	case r.Header.Get("authorization") != "":
		order = []string{openAIChat, openAIResponses, anthropic, gemini}
	}
	for _, dialect := range order {
		if p.speaks(dialect) {
			return dialect
		}
	}
	return anthropic
}

// checkCredentials refuses a request without a credential where its dialect wants one, and any that is not known.
func (p *Provider) checkCredentials(dialect string, r *http.Request) *refusal {
	sent, malformed := credentials(r)
	if malformed {
		return unauthorized(dialect, "invalid authorization header")
	}
	own := slices.Clone(sent["bearer"])
	switch dialect {
	case anthropic:
		own = append(own, sent["x-api-key"]...)
	case gemini:
		own = append(own, append(sent["x-goog-api-key"], sent["key"]...)...)
	default:
		own = append(own, sent["api-key"]...) // Azure's
	}
	if len(own) == 0 {
		return missingCredential(dialect)
	}
	for _, keys := range sent { // one bad credential beside a good one is a leak, and must not pass
		for _, key := range keys {
			if len(p.options.Keys) > 0 && !slices.Contains(p.options.Keys, key) {
				return wrongCredential(dialect)
			}
		}
	}
	return nil
}

// credentials are all that a request carries, by where they stand.
func credentials(r *http.Request) (sent map[string][]string, malformed bool) {
	sent = map[string][]string{}
	for _, name := range []string{"x-api-key", "x-goog-api-key", "api-key"} {
		if values := r.Header.Values(name); len(values) > 0 {
			sent[name] = values
		}
	}
	if keys := r.URL.Query()["key"]; len(keys) > 0 {
		sent["key"] = keys
	}
	for _, value := range r.Header.Values("authorization") {
		token, isBearer := strings.CutPrefix(value, "Bearer ")
		if !isBearer {
			return sent, true
		}
		sent["bearer"] = append(sent["bearer"], token)
	}
	return sent, false
}

func missingCredential(dialect string) *refusal {
	switch dialect {
	case anthropic:
		return unauthorized(dialect, "x-api-key header is required")
	case gemini:
		return refuse(http.StatusForbidden, "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.")
	}
	f := refuse(http.StatusUnauthorized, "You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).")
	f.code = noCode
	return f
}

func wrongCredential(dialect string) *refusal {
	switch dialect {
	case anthropic:
		return unauthorized(dialect, "invalid x-api-key")
	case gemini:
		f := refuse(http.StatusBadRequest, "API key not valid. Please pass a valid API key.")
		f.reason = "API_KEY_INVALID"
		return f
	}
	return unauthorized(dialect, "Incorrect API key provided.")
}

func unauthorized(dialect, message string) *refusal {
	if dialect == gemini {
		return refuse(http.StatusUnauthorized, "Request had invalid authentication credentials.")
	}
	return refuse(http.StatusUnauthorized, message)
}

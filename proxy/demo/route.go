package demo

import (
	"net/http"
	"strings"
)

// route finds the endpoint. Prefixes before it are ignored, as gateways have them.
func (p *Provider) route(a *answer, body []byte) {
	path, post := a.r.URL.Path, a.r.Method == http.MethodPost
	switch _, action, isGemini := geminiTarget(path); {
	case post && strings.HasSuffix(path, "/v1/messages"):
		p.serve(a, anthropic, body, p.generate)
	case post && strings.HasSuffix(path, "/v1/messages/count_tokens"):
		p.serve(a, anthropic, body, p.countTokens)
	case post && isGemini && action != "":
		p.serve(a, gemini, body, p.geminiAction)
	case post && strings.HasSuffix(path, "/chat/completions"):
		p.serve(a, openAIChat, body, p.chat)
	case strings.HasSuffix(path, "/responses") || strings.Contains(path, "/responses/"):
		p.serve(a, openAIResponses, body, p.responses)
	case post && p.speaksOpenAI() && openAISide(path) != "":
		if !p.speaks(openAIChat) {
			p.serve(a, openAIResponses, body, p.side)
			return
		}
		p.serve(a, openAIChat, body, p.side)
	case a.r.Method == http.MethodGet && (strings.HasSuffix(path, "/models") || modelOf(path) != ""):
		p.serve(a, p.guess(a.r), body, p.models)
	default:
		p.serve(a, p.guess(a.r), body, notFound)
	}
}

// serve checks what all endpoints of a dialect have in common, and goes on to one.
func (p *Provider) serve(a *answer, dialect string, body []byte, endpoint func(*answer, []byte)) {
	a.dialect = dialect
	a.sign()
	refusal := p.checkCredentials(dialect, a.r)
	if refusal == nil && !p.speaks(dialect) {
		refusal = refuse(http.StatusNotFound, "Not found")
	}
	if refusal == nil && dialect == anthropic {
		refusal = checkVersion(a.r.Header)
	}
	if refusal != nil {
		a.refuse(refusal)
		return
	}
	endpoint(a, body)
}

func notFound(a *answer, _ []byte) {
	a.refuse(refuse(http.StatusNotFound, "Not found"))
}

// geminiTarget cuts /v1beta/models/NAME:action apart; the name may have slashes, as tuned models have.
func geminiTarget(path string) (model, action string, found bool) {
	before, action, found := cutLast(path, ":")
	if !found || strings.Contains(action, "/") {
		return "", "", false
	}
	for _, collection := range []string{"/models/", "/tunedModels/", "/publishers/"} {
		prefix, name, found := strings.Cut(before, collection)
		if _, version, _ := cutLast(prefix, "/"); found && name != "" && strings.HasPrefix(version, "v1") {
			return name, action, true
		}
	}
	return "", "", false
}

// modelOf is the model that a path of the model list names.
func modelOf(path string) string {
	_, model, found := cutLast(path, "/models/")
	if !found {
		return ""
	}
	return model
}

// openAISide names an endpoint that is neither chat nor responses.
func openAISide(path string) string {
	for _, name := range []string{"embeddings", "moderations", "images/generations", "audio/speech", "audio/transcriptions", "completions"} {
		if strings.HasSuffix(path, "/"+name) {
			return name
		}
	}
	return ""
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

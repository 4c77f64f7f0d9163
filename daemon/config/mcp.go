package config

import (
	"net/url"
	"slices"
	"strings"

	"coding-proxy/auth"
	"coding-proxy/proxy"
	"coding-proxy/proxy/upstream"
)

// mcpDraft is an MCP server as the file has it.
type mcpDraft struct {
	at          value
	url, apiKey str
	headers     []entry
}

func mcpFields(m *mcpDraft) []field {
	return []field{
		{"url", keep(&m.url)},
		{"api_key", keep(&m.apiKey)},
		{"headers", entries(&m.headers)},
	}
}

// mcpServers reads the section `mcp`.
func mcpServers(to *proxy.Options) reader {
	return func(d *decoder, v value) {
		d.members(v, func(name string, v value) {
			if wrong := keyID(name); wrong != "" { // it stands in a path
				d.problem(v.nameAt, v.path, "name %s", wrong)
				return
			}
			if !d.is(v, kindObject) {
				return
			}
			m, before := &mcpDraft{at: v}, len(d.missing)
			d.object(v, mcpFields(m))
			o := d.mcpServer(name, m)
			if !d.lacks(m, slices.Clone(d.missing[before:])) {
				if to.MCP == nil {
					to.MCP = make(map[string]upstream.Options)
				}
				to.MCP[name] = o
			}
		})
	}
}

func (d *decoder) mcpServer(name string, m *mcpDraft) upstream.Options {
	end := upstream.Endpoint{Protocol: "mcp"}
	if d.require(m.url.value, m.at, "url") {
		var wrong string
		if end.BaseURL, wrong = baseURL(m.url.text, false); wrong != "" {
			wrong, _, _ = strings.Cut(wrong, "; set `allow_http`") // a pool key's field
			d.fail(m.url.value, "%s%s", wrong, d.unset(m.url.value))
		} else {
			end.BaseURL, _ = url.Parse(m.url.text) // it is the whole address: a slash at its end stays
		}
	}
	secret := trimKey(m.apiKey.text)
	if wrong := anyText(secret); wrong != "" {
		d.fail(m.apiKey.value, "%s", wrong)
	}
	if m.apiKey.given() {
		end.HeaderName, end.HeaderPrefix = authorization, "Bearer "
	}
	k := &keyDraft{headers: m.headers, sends: m.apiKey.given()}
	k.way = upstream.Options{KeyID: name, Endpoints: []upstream.Endpoint{end}, APIKey: auth.NewSecret(secret)}
	d.headers(k)
	return k.way
}

// lacks reports whether a server has not all it would be sent, and so is left out: "${NAME}" must never go there.
func (d *decoder) lacks(m *mcpDraft, missing []*missing) bool {
	const effect = ": the MCP server is left out"
	for _, v := range missing {
		v.effect = effect
	}
	switch {
	case len(missing) > 0:
		return true
	case m.apiKey.given() && trimKey(m.apiKey.text) == "":
		d.warn(m.apiKey.value, "api_key is empty%s", effect)
		return true
	}
	return false
}

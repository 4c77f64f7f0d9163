package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"coding-proxy/proxy"
	"coding-proxy/proxy/upstream"
)

// endpoints reads the addresses of a provider that speaks several dialects.
func endpoints(k *keyDraft) reader {
	return func(d *decoder, v value) {
		k.endpointsAt = v
		names := proxy.Dialects()
		d.members(v, func(name string, v value) {
			if !slices.Contains(names, name) {
				d.problem(v.nameAt, v.path, "name must be one of %s%s", quoteAll(names), didYouMean(name, names))
			} else if s, ok := d.str(v); ok {
				k.endpoints = append(k.endpoints, entry{s, name})
			}
		})
		d.needsItem(v, kindObject, "the key would have no upstream; leave it out where `provider`, or `protocol` and `base_url` say it")
	}
}

// address settles where the key's upstream is and what it speaks there.
func (d *decoder) address(k *keyDraft, assumedProtocol string) {
	known := presets()[k.provider.text]
	if assumedProtocol != "" && len(known.at(assumedProtocol)) == 0 {
		known = preset{} // the older forms know no other protocol: the name is a label there
	}
	k.keyless = known.keyless
	switch {
	case k.endpointsAt.given():
		d.severalAddresses(k)
	case k.baseURL.given():
		k.way.Endpoints = []upstream.Endpoint{{Protocol: d.protocol(k, known, assumedProtocol), BaseURL: d.baseURL(k, k.baseURL)}}
	default:
		d.knownAddresses(k, known, assumedProtocol)
	}
	for _, e := range k.way.Endpoints {
		if e.Protocol != "" {
			k.rules.Protocols = append(k.rules.Protocols, e.Protocol)
		}
	}
}

// severalAddresses takes what `endpoints` says, whoever the provider is.
func (d *decoder) severalAddresses(k *keyDraft) {
	for _, s := range []str{k.protocol, k.baseURL} {
		if s.given() {
			d.fail(s.value, "must not be set beside `endpoints`, which says it")
		}
	}
	for _, e := range k.endpoints {
		k.way.Endpoints = append(k.way.Endpoints, upstream.Endpoint{Protocol: e.field, BaseURL: d.baseURL(k, e.str)})
	}
	order := proxy.Dialects()
	slices.SortFunc(k.way.Endpoints, func(a, b upstream.Endpoint) int {
		return cmp.Compare(slices.Index(order, a.Protocol), slices.Index(order, b.Protocol))
	})
}

// knownAddresses takes those that the provider brings, only the one of the protocol if the key names that.
func (d *decoder) knownAddresses(k *keyDraft, known preset, assumedProtocol string) {
	brought, protocol := known.endpoints, ""
	if k.protocol.given() || len(brought) == 0 {
		if protocol = d.protocol(k, known, assumedProtocol); protocol == "" && len(brought) > 0 {
			return // a protocol that nobody speaks: which address is meant cannot be said
		}
		brought = known.at(protocol)
	}
	if len(brought) == 0 {
		d.fail(k.at, "`base_url` is required%s", bringing(protocol))
		brought = []address{{protocol: protocol}}
	}
	for _, a := range brought {
		base, _ := url.Parse(a.baseURL) // it is a preset's
		k.way.Endpoints = append(k.way.Endpoints, upstream.Endpoint{Protocol: a.protocol, BaseURL: base})
	}
}

// protocol is what is spoken at the key's one address; "" has been reported.
func (d *decoder) protocol(k *keyDraft, known preset, assumedProtocol string) string {
	switch {
	case k.protocol.given():
		if d.oneOf(k.protocol, proxy.Dialects()) {
			return k.protocol.text
		}
	case len(known.endpoints) == 1:
		return known.endpoints[0].protocol
	case len(known.endpoints) > 1: // an address of the user's own may speak less than the provider does
		var spoken []string
		for _, a := range known.endpoints {
			spoken = append(spoken, a.protocol)
		}
		d.fail(k.baseURL.value, "needs `protocol` beside it: this provider speaks %s; `endpoints` can name several", quoteAll(spoken))
	case assumedProtocol == "":
		d.fail(k.at, "`protocol` is required%s", bringing(""))
	}
	return assumedProtocol
}

// baseURL takes an address that the file names.
func (d *decoder) baseURL(k *keyDraft, s str) *url.URL {
	u, wrong := baseURL(s.text, k.allowHTTP)
	if wrong != "" {
		d.fail(s.value, "%s%s", wrong, d.unset(s.value))
	}
	return u
}

// credentialHeader settles the header that carries the key at each endpoint.
func (d *decoder) credentialHeader(k *keyDraft) {
	own := strings.ToLower(k.headerName.text)
	if k.headerName.given() {
		if wrong := headerName(own); wrong != "" {
			d.fail(k.headerName.value, "%s", wrong)
		}
	}
	wrong := anyText(k.prefix.text)
	for i := range k.way.Endpoints {
		e := &k.way.Endpoints[i]
		name, prefix := carrier(e.Protocol), k.prefix.text
		if k.headerName.given() {
			name = own
		}
		if name == authorization && !k.prefix.given() {
			prefix = "Bearer "
		}
		if name == authorization && wrong == "" && prefix != "" && !strings.HasSuffix(prefix, " ") {
			wrong = "must end with a space, which parts it from the key"
		}
		if k.sends {
			e.HeaderName, e.HeaderPrefix = name, prefix
		}
	}
	if wrong != "" {
		d.fail(k.prefix.value, "%s", wrong)
	}
}

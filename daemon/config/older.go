package config

import (
	"bytes"
	"encoding/json"

	"coding-proxy/proxy/upstream"
)

// eachUpstream reads an entry of the older upstreams: a key without limits that speaks Anthropic.
func eachUpstream(f *file) reader {
	return func(d *decoder, v value) {
		k := d.draft(v, upstreamFields)
		if k == nil {
			return
		}
		f.upstreams = append(f.upstreams, k)
		switch {
		case k.rules.Models != nil && (k.model.given() || k.realModel.given()):
			d.fail(v, "has `models` and also `model` or `real_model`")
		case k.realModel.given() && !k.model.given():
			d.fail(k.realModel.value, "needs `model`, the name that clients use")
		case k.model.given():
			d.oneModel(k)
		}
	}
}

// oneModel makes the map of models out of model and real_model.
func (d *decoder) oneModel(k *keyDraft) {
	if wrong := modelName(k.model.text); wrong != "" {
		d.fail(k.model.value, "%s", wrong)
	}
	if !k.realModel.given() {
		k.realModel = k.model
	} else if wrong := modelTarget(k.model.text, k.realModel.text); wrong != "" {
		d.fail(k.realModel.value, "%s", wrong)
	}
	k.rules.Models = map[string]string{k.model.text: k.realModel.text}
}

// upstreamsAsPool is the warning that shows upstreams in the form of today.
func upstreamsAsPool(keys []*keyDraft) string {
	type key struct {
		ID       string            `json:"id"`
		Provider string            `json:"provider,omitempty"`
		Protocol string            `json:"protocol"`
		BaseURL  string            `json:"base_url,omitempty"`
		APIKey   string            `json:"api_key"`
		Models   map[string]string `json:"models,omitempty"`
	}
	var form struct {
		Pool struct {
			Strategy string `json:"strategy"`
			Keys     []key  `json:"keys"`
		} `json:"pool"`
	}
	form.Pool.Strategy = "fill-first"
	for _, k := range keys {
		models := make(map[string]string)
		for _, e := range k.models {
			models[e.field] = e.written()
		}
		if k.model.given() {
			models[k.model.written()] = k.realModel.written()
		}
		form.Pool.Keys = append(form.Pool.Keys, key{k.id.written(), k.provider.written(), upstream.Anthropic, k.baseURL.written(), "***", models})
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(form); err != nil {
		return "older form, still read; write its keys as `pool.keys`"
	}
	return "older form, still read; write " + string(bytes.TrimSpace(out.Bytes()))
}

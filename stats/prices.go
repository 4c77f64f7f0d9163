package stats

import (
	"cmp"
	_ "embed" // the price table
	"encoding/json"
	"math"
	"slices"
	"strings"
	"time"
)

//go:embed prices.json
var priceTable []byte

// Price is what tokens cost, in USD per million. Reasoning is part of the output.
type Price struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheWrite float64 `json:"cache_write"`
	CacheRead  float64 `json:"cache_read"`
}

// PriceRule is a price of the configuration. It goes before the table.
type PriceRule struct {
	Pattern string // a name; with * a glob
	Price
}

// pricedModel is a row of prices.json: a list price in USD. A model whose price is not known has no row.
type pricedModel struct {
	Model    string   `json:"model"`
	Provider string   `json:"provider"`
	Also     []string `json:"also"` // other names, as nameForms makes them: aliases, and globs for dated ones
	Price
	Bands   []band `json:"bands"`
	Retired bool   `json:"retired"` // priced, but not in lists
	Source  string `json:"source"`
}

// band is another price of a model, for prompts longer than Above tokens, from a day on, or in some hours.
type band struct {
	Above int64    `json:"above"`
	From  string   `json:"from"`
	Hours [][2]int `json:"hours"` // of Monday to Friday, UTC: from, until before
	Price
}

func (b *band) has(prompt int64, utc time.Time) bool {
	if b.Above > 0 && prompt <= b.Above || utc.Format(dateForm) < b.From {
		return false
	}
	if b.Hours == nil {
		return true
	}
	day, hour := utc.Weekday(), utc.Hour()
	return day != time.Saturday && day != time.Sunday && slices.ContainsFunc(b.Hours, func(h [2]int) bool { return h[0] <= hour && hour < h[1] })
}

// priceFile is prices.json.
type priceFile struct {
	Date    string `json:"date"`
	About   string `json:"about"`
	Sources []struct {
		ID   string `json:"id"`
		URL  string `json:"url"`
		Seen string `json:"seen"`
		Note string `json:"note"`
	} `json:"sources"`
	Models []pricedModel `json:"models"`
}

func readPrices() priceFile {
	var f priceFile
	_ = json.Unmarshal(priceTable, &f) // a test reads it
	return f
}

// ModelNames are the names of the price table by provider, without those that are retired.
func ModelNames() map[string][]string {
	names := map[string][]string{}
	for _, m := range readPrices().Models {
		if !m.Retired {
			names[m.Provider] = append(names[m.Provider], m.Model)
		}
	}
	return names
}

// tariff is a model's price and its bands, the last that fits counts.
type tariff struct {
	Price
	bands []band
}

// at is the price of a request with so many tokens of prompt, cached ones included.
func (t *tariff) at(prompt int64, when time.Time) Price {
	if len(t.bands) == 0 {
		return t.Price
	}
	price, utc := t.Price, when.UTC()
	for i := range t.bands {
		if b := &t.bands[i]; b.has(prompt, utc) {
			price = b.Price
		}
	}
	return price
}

// Prices knows what models cost: by the configuration, else by the table. It never changes.
type Prices struct{ own, table priceList }

// NewPrices returns the table below the rules.
func NewPrices(rules []PriceRule) *Prices {
	p := &Prices{newPriceList(), newPriceList()}
	for _, r := range rules {
		p.own.add(r.Pattern, &tariff{Price: r.Price})
	}
	for _, m := range readPrices().Models {
		t := &tariff{m.Price, m.Bands}
		p.table.add(m.Model, t)
		for _, name := range m.Also {
			p.table.add(name, t)
		}
	}
	p.own.sort()
	p.table.sort()
	return p
}

// find returns the tariff of a model, nil when there is none: the name as it is before its other forms, exact names
// before globs. No row is found by a part of a name: gpt-5 says nothing of gpt-5-mini.
func (p *Prices) find(model string) *tariff {
	forms := nameForms(model)
	for _, list := range [...]*priceList{&p.own, &p.table} {
		for i, form := range forms {
			if i > 0 && form == forms[i-1] {
				continue
			}
			if t := list.find(form); t != nil {
				return t
			}
		}
	}
	return nil
}

// nameForms are a model's name as it is; without what stands before the last slash and after @, in lower case; and that
// with hyphens for dots: "anthropic/Claude-Sonnet-4.5@20250929" is claude-sonnet-4-5.
func nameForms(model string) [3]string {
	base, _, _ := strings.Cut(model[strings.LastIndexByte(model, '/')+1:], "@")
	base = strings.ToLower(base)
	return [3]string{model, base, hyphens(base)}
}

func hyphens(name string) string { return strings.ReplaceAll(name, ".", "-") }

// priceList are prices by name and by glob.
type priceList struct {
	exact map[string]*tariff
	globs []priceGlob // the one with the most text first
}

type priceGlob struct {
	parts []string // the text between the stars
	text  int      // bytes in parts
	*tariff
}

func newPriceList() priceList { return priceList{exact: map[string]*tariff{}} }

// add adds a pattern; of two alike the first counts. A name is also found in its last form.
func (l *priceList) add(pattern string, t *tariff) {
	if parts := strings.Split(pattern, "*"); len(parts) > 1 {
		l.globs = append(l.globs, priceGlob{parts, len(pattern) - len(parts) + 1, t})
		return
	}
	for _, name := range []string{pattern, hyphens(strings.ToLower(pattern))} {
		if l.exact[name] == nil {
			l.exact[name] = t
		}
	}
}

func (l *priceList) sort() {
	slices.SortStableFunc(l.globs, func(a, b priceGlob) int { return cmp.Compare(b.text, a.text) })
}

func (l *priceList) find(name string) *tariff {
	if t := l.exact[name]; t != nil {
		return t
	}
	for _, g := range l.globs {
		if matchGlob(g.parts, name) {
			return g.tariff
		}
	}
	return nil
}

// matchGlob reports whether name is the parts with any text between them.
func matchGlob(parts []string, name string) bool {
	rest, ok := strings.CutPrefix(name, parts[0])
	if !ok {
		return false
	}
	last := len(parts) - 1
	for _, p := range parts[1:last] {
		i := strings.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+len(p):]
	}
	return strings.HasSuffix(rest, parts[last])
}

// charge says what the record costs by the price of the model that the provider bills. Local answers cost nothing, nor does
// what has no tokens; a record that has a cost keeps it.
func (p *Prices) charge(r *Record) {
	in, out := max(r.InputTokens, 0), max(r.OutputTokens, 0)
	write, read := max(r.CacheCreationTokens, 0), max(r.CacheReadTokens, 0)
	if r.Outcome == OutcomeLocal || r.CostUSD != 0 || in|out|write|read == 0 {
		return
	}
	t := p.find(cmp.Or(r.UpstreamModel, r.Resolved))
	if r.Unpriced = t == nil; r.Unpriced {
		return
	}
	price := t.at(in+write+read, r.TS)
	r.CostUSD = roundUSD((float64(in)*price.Input + float64(out)*price.Output + float64(write)*price.CacheWrite + float64(read)*price.CacheRead) / 1e6)
}

// roundUSD rounds to 1e-10 USD, the cost of one token at a price with four digits after the point. Costs and their sums
// are exact multiples of it, so that nothing accumulates below 2^53 of them, some 900,000 USD.
func roundUSD(usd float64) float64 {
	const unit = 1e10
	if rounded := math.Round(usd*unit) / unit; !math.IsInf(rounded, 0) {
		return rounded
	}
	return usd
}

package config

import "coding-proxy/stats"

// maxPrice is more than any token costs, in USD per million.
const maxPrice = 100_000

// priceDraft is an entry of pricing.
type priceDraft struct {
	at            value
	pattern       str
	input, output float64
	write, read   *float64 // nil = as input
}

func eachPrice(f *file) reader {
	return func(d *decoder, v value) {
		if d.is(v, kindObject) {
			p := &priceDraft{at: v}
			d.object(v, priceFields(p))
			f.prices = append(f.prices, p)
		}
	}
}

func priceFields(p *priceDraft) []field {
	some := func(to **float64) reader {
		return func(d *decoder, v value) {
			var n float64
			number(&n, 0, maxPrice)(d, v)
			*to = &n
		}
	}
	return []field{
		{"pattern", keep(&p.pattern)},
		{"input", number(&p.input, 0, maxPrice)},
		{"output", number(&p.output, 0, maxPrice)},
		{"cache_write", some(&p.write)},
		{"cache_read", some(&p.read)},
	}
}

// pricing turns the entries into prices. What is not said of cached tokens costs as much as other input: a provider that
// does not say it bills them so, and no cost is understated.
func (d *decoder) pricing(c *Config, f *file) {
	first := map[string]value{}
	for _, p := range f.prices {
		if d.require(p.pattern.value, p.at, "pattern") {
			before, twice := first[p.pattern.text]
			switch wrong := notEmpty(p.pattern.text); {
			case wrong != "":
				d.fail(p.pattern.value, "%s%s", wrong, d.unset(p.pattern.value))
			case twice:
				d.fail(p.pattern.value, "duplicate pattern; first in line %d", before.at.line)
			default:
				first[p.pattern.text] = p.pattern.value
			}
		}
		d.require(d.seen[p.at.path+".input"], p.at, "input")
		d.require(d.seen[p.at.path+".output"], p.at, "output")
		price := stats.Price{Input: p.input, Output: p.output, CacheWrite: p.input, CacheRead: p.input}
		if p.write != nil {
			price.CacheWrite = *p.write
		}
		if p.read != nil {
			price.CacheRead = *p.read
		}
		c.Stats.Pricing = append(c.Stats.Pricing, stats.PriceRule{Pattern: p.pattern.text, Price: price})
	}
}

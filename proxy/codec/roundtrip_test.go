package codec_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

// generated is how many canonical requests are made; each goes to all dialects.
const generated = 10_000

// trip is a request's way A → B → A.
type trip struct {
	way        codectest.Way
	r1, r2, r3 *ir.Request
	lost       []string
	names      []*ir.FieldNames
}

// refusal is an encoder's error.
type refusal struct {
	error
	back bool // on the way back
}

func (r refusal) Unwrap() error { return r.error }

func target(model string) ir.Target { return ir.Target{Model: model, Owner: codectest.Owner} }

// travel takes a request that A's client sent to B and back.
func travel(a, b *ir.Dialect, aModel, bModel string, r1 *ir.Request) (*trip, error) {
	t := &trip{way: codectest.Way{From: a.Name, To: b.Name, FromModel: aModel, ToModel: bModel}, r1: r1}
	there, err := b.EncodeRequest(r1, target(bModel))
	if err != nil {
		return t, refusal{err, false}
	}
	if !json.Valid(there.Body) {
		return t, fmt.Errorf("to %s: no JSON: %s", b.Name, there.Body)
	}
	if t.r2, err = b.DecodeRequest(incoming(there, bModel)); err != nil {
		return t, fmt.Errorf("%s does not read what it wrote: %w\n%s", b.Name, err, there.Body)
	}
	codectest.Restore(t.r2, there.Tools)
	back, err := a.EncodeRequest(t.r2, target(aModel))
	if err != nil {
		return t, refusal{err, true}
	}
	if t.r3, err = a.DecodeRequest(incoming(back, aModel)); err != nil {
		return t, fmt.Errorf("%s does not read what it wrote: %w\n%s", a.Name, err, back.Body)
	}
	t.lost = slices.Concat(there.Lost, back.Lost)
	t.names = []*ir.FieldNames{r1.Names, t.r2.Names}
	return t, nil
}

// incoming is a request that an encoder wrote, as a server of the dialect gets it: the path says what the body does not.
func incoming(out *ir.Outgoing, model string) ir.Incoming {
	return ir.Incoming{Body: out.Body, Model: pathModel(out.Path, model), Stream: strings.Contains(out.Path, "stream")}
}

func pathModel(path, model string) string {
	if strings.Contains(path, model) {
		return model
	}
	return ""
}

// problem is what is wrong with a trip, "" where nothing is.
func (t *trip) problem() string {
	p, _ := t.check()
	return p
}

// check is problem, and the rows of the table of losses that it took.
func (t *trip) check() (problem string, hit []*codectest.Loss) {
	want, hit := codectest.Lose(t.r1, t.r3, t.way)
	got, wanted := codectest.Normalize(t.r3), codectest.Normalize(want)
	if d := codectest.Diff(got, wanted); d != "" {
		return "comes back changed at " + codectest.Paths(got, wanted) + ":" + d, hit
	}
	for _, l := range hit {
		if !l.Named(t.names, t.lost) {
			return "not named as lost: " + l.What + fmt.Sprintf(" (%q), reasoning %+v -> %+v -> %+v", t.lost, t.r1.Reasoning, t.r2.Reasoning, t.r3.Reasoning), hit
		}
	}
	return "", hit
}

var digits = regexp.MustCompile(`[0-9]+`)

// tally gathers problems by their look, so that one cause does not fill the screen.
type tally struct {
	n     map[string]int
	first map[string]string
	done  int
	rows  map[string]int // of the table of losses: how often each was needed
}

func row(l *codectest.Loss) string { return l.From + " -> " + l.To + " " + l.What }

func (c *tally) add(way codectest.Way, problem, detail string) {
	if c.n == nil {
		c.n, c.first = map[string]int{}, map[string]string{}
	}
	look, _, _ := strings.Cut(problem, "\n")
	key := way.From + " -> " + way.To + " " + digits.ReplaceAllString(look, "#")
	if c.n[key]++; c.n[key] == 1 {
		c.first[key] = fmt.Sprintf("%+v %s\n%s", way, problem, detail)
	}
}

func (c *tally) report(t *testing.T) {
	t.Helper()
	keys := make([]string, 0, len(c.n))
	for k := range c.n {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		t.Errorf("%d times: %s", c.n[k], c.first[k])
	}
	t.Logf("%d round trips", c.done)
}

// A request is the same after A → B → A, but for what the table of losses says; and each row of the table is needed.
func TestRoundTrip(t *testing.T) {
	needed := map[string]int{}
	t.Run("Generated", func(t *testing.T) { roundTripGenerated(t, needed) })
	t.Run("Captured", func(t *testing.T) { roundTripCaptured(t, needed) })
	if testing.Short() {
		return
	}
	rows := codectest.Losses()
	for i := range rows {
		if needed[row(&rows[i])] == 0 {
			t.Errorf("nothing needs the row %q: a loss that does not happen hides one that should not", row(&rows[i]))
		}
	}
}

// roundTripGenerated takes requests that a client could have sent.
func roundTripGenerated(t *testing.T, needed map[string]int) {
	n := generated
	if testing.Short() {
		n /= 10
	}
	all := codec.All()
	g := codectest.NewGenerator(1)
	var c tally
	refused := map[string]int{}
	for i := range n {
		r := g.Request()
		a := all[i%len(all)]
		aModel := codectest.Models(a)[i/len(all)%2]
		sent, err := a.EncodeRequest(r, target(aModel))
		if err != nil { // no client can say it
			refused["making "+a.Name]++
			continue
		}
		r1, err := a.DecodeRequest(incoming(sent, aModel))
		if err != nil {
			c.add(codectest.Way{From: a.Name}, "it does not read what it wrote: "+err.Error(), string(sent.Body))
			continue
		}
		for _, b := range all {
			c.trip(refused, a, b, aModel, codectest.Models(b)[i/len(all)/2%2], r1, string(sent.Body))
		}
	}
	c.report(t)
	t.Logf("refused: %v", refused)
	for name, n := range c.rows {
		needed[name] += n
	}
}

// trip takes one request one way.
func (c *tally) trip(refused map[string]int, a, b *ir.Dialect, aModel, bModel string, r1 *ir.Request, body string) {
	tr, err := travel(a, b, aModel, bModel, r1)
	no400 := codectest.Refused(r1, tr.way)
	var no *ir.RefusedError
	switch {
	case err != nil && errors.As(err, &no) && no400 != nil:
		refused[a.Name+" -> "+b.Name+": "+no400.What]++
	case err != nil:
		c.add(tr.way, "refused: "+err.Error(), body)
	case no400 != nil:
		c.add(tr.way, "not refused: "+no400.What, body)
	default:
		c.done++
		p, hit := tr.check()
		if p != "" {
			c.add(tr.way, p, body)
		}
		if c.rows == nil {
			c.rows = map[string]int{}
		}
		for _, l := range hit {
			c.rows[row(l)]++
		}
	}
}

// captured is a request that a client of a dialect really sent.
type captured struct {
	name  string
	model string
	in    ir.Incoming
}

// bodies are the captured requests of a dialect. Where the path says something, the folder's index does.
func bodies(t testing.TB, d *ir.Dialect) (out []captured) {
	t.Helper()
	folder := "../../testdata/" + d.Name + "/"
	index := map[string]struct{ Model, Action string }{}
	if b, err := os.ReadFile(folder + "index.json"); err == nil {
		if err := json.Unmarshal(b, &index); err != nil {
			t.Fatal(err)
		}
	}
	files, _ := filepath.Glob(folder + "bodies/*.json")
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		c := captured{name: name, in: ir.Incoming{Body: b}}
		c.in.Model, c.in.Stream = index[name].Model, strings.HasPrefix(index[name].Action, "stream")
		if c.model = c.in.Model; c.model == "" {
			var body struct{ Model string }
			if err := json.Unmarshal(b, &body); err != nil {
				t.Fatal(f, err)
			}
			c.model = body.Model
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		t.Fatalf("no captured bodies of %s", d.Name)
	}
	return out
}

// roundTripCaptured takes requests that clients really sent.
func roundTripCaptured(t *testing.T, needed map[string]int) {
	var c tally
	refused := map[string]int{}
	for _, a := range codec.All() {
		for _, body := range bodies(t, a) {
			r1, err := a.DecodeRequest(body.in)
			if err != nil {
				t.Errorf("%s: %s: %v", a.Name, body.name, err)
				continue
			}
			for _, b := range codec.All() {
				for _, bModel := range codectest.Models(b) {
					c.trip(refused, a, b, body.model, bModel, r1, body.name)
				}
			}
		}
	}
	c.report(t)
	t.Logf("refused: %v", refused)
	for name, n := range c.rows {
		needed[name] += n
	}
}

package codec_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/codec/codectest"
	"coding-proxy/proxy/ir"
)

var update = flag.Bool("update", false, "write testdata/conversions/*.txt")

// golden compares a text with its file, or writes it.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("../../testdata/conversions", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, []byte(text)) {
		t.Errorf("%s differs; go test ./proxy/codec -run %s -update writes it:\n%s", path, t.Name(), text)
	}
}

// cell is what was found for a client's dialect and an upstream's, in words for a table: ok, or how often not.
type cell struct{ request, plain, stream int }

func (c cell) String() string {
	word := func(failures int) string {
		if failures > 0 {
			return fmt.Sprintf("%d fail", failures)
		}
		return "ok"
	}
	return word(c.request) + " / " + word(c.plain) + " / " + word(c.stream)
}

// The matrix: every client's dialect to every upstream's. Requests are the captured ones and generated ones; each must come
// to the upstream as valid JSON that its dialect reads, and back. Answers are the canonical ones, plain and as streams.
func TestMatrix(t *testing.T) {
	all := codec.All()
	var b strings.Builder
	b.WriteString("client's dialect (rows) to upstream's (columns): request / plain answer / stream\n\n")
	fmt.Fprintf(&b, "%-18s", "")
	for _, up := range all {
		fmt.Fprintf(&b, "%-18s", up.Name)
	}
	b.WriteString("\n")
	pairs := 0
	for _, client := range all {
		fmt.Fprintf(&b, "%-18s", client.Name)
		for _, up := range all {
			c := tried(t, client, up)
			if c != (cell{}) {
				t.Errorf("%s to %s: %s", client.Name, up.Name, c)
			}
			fmt.Fprintf(&b, "%-18s", c)
			pairs++
		}
		b.WriteString("\n")
	}
	text := strings.ReplaceAll(b.String(), " \n", "\n")
	for strings.Contains(text, " \n") {
		text = strings.ReplaceAll(text, " \n", "\n")
	}
	for _, f := range openFindings() {
		text += "\nNot tried until it is mended: " + f.id + ", " + f.what + ".\n"
	}
	if pairs != len(all)*len(all) || pairs < 16 {
		t.Errorf("%d pairs", pairs)
	}
	t.Logf("\n%s", text)
	golden(t, "matrix.txt", text)
}

// tried runs everything for one pair.
func tried(t *testing.T, client, up *ir.Dialect) (c cell) {
	fail := func(n *int, what, problem string) {
		if *n++; *n == 1 {
			t.Logf("%s to %s: %s: %s", client.Name, up.Name, what, problem)
		}
	}
	for _, body := range bodies(t, client) {
		if p := requestProblem(client, up, body); p != "" {
			fail(&c.request, body.name, p)
		}
	}
	open := openFindings()
	asItIs := codectest.Form{Name: "as it is"}
	for _, a := range codectest.Answers() {
		if a.Custom && (!hasCustom(client) || !hasCustom(up)) || open[lineBreaks(up, client, &a, asItIs)] != nil {
			continue
		}
		if p := between(up, client, &a, asItIs); p != "" {
			fail(&c.stream, a.Name, p)
		}
		if a.Fault {
			continue
		}
		canonical, _, _ := codectest.FoldOf(a.Events, nil)
		if p := plainProblem(up, client, canonical); p != "" {
			fail(&c.plain, a.Name, p)
		}
	}
	return c
}

// requestProblem takes a captured request to the upstream and back.
func requestProblem(client, up *ir.Dialect, body captured) string {
	r, err := client.DecodeRequest(body.in)
	if err != nil {
		return err.Error()
	}
	for _, model := range codectest.Models(up) {
		trip, err := travel(client, up, body.model, model, r)
		var no *ir.RefusedError
		if errors.As(err, &no) && codectest.Refused(r, trip.way) != nil {
			continue
		}
		if err != nil {
			return err.Error()
		}
		if p := trip.problem(); p != "" {
			return p
		}
	}
	return ""
}

// plainProblem takes a plain answer to the client.
func plainProblem(up, client *ir.Dialect, canonical *ir.Answer) string {
	body, _ := up.AppendAnswer(nil, canonical, codectest.Reply())
	events, err := up.DecodeAnswer(body, codectest.Source())
	if err != nil {
		return err.Error()
	}
	heard, _, _ := codectest.FoldOf(events, nil)
	out, _ := client.AppendAnswer(nil, heard, codectest.Reply())
	if events, err = client.DecodeAnswer(out, codectest.Source()); err != nil {
		return err.Error()
	}
	got, _, _ := codectest.FoldOf(events, nil)
	want, _ := codectest.LoseAnswer(heard, client.Name)
	return codectest.Diff(codectest.NormalizeAnswer(got), codectest.NormalizeAnswer(want))
}

// The tables of losses are on disk for people; they cannot change unseen.
func TestLossTables(t *testing.T) {
	text := codectest.LossTable() + codectest.AnswerLossTable()
	t.Logf("\n%s", text)
	golden(t, "losses.txt", text)
	for _, l := range codectest.Losses() {
		if l.What == "" || l.Why == "" || l.Apply == nil == (l.Either == nil) {
			t.Errorf("row %+v", l)
		}
	}
}

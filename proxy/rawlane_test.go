package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func readerOf(b []byte) io.Reader { return bytes.NewReader(b) }

// bodies returns captured requests and generated ones: odd key orders, 64-bit integers, escapes, repeated keys
// other than the four that are refused, every block type.
func bodies(t *testing.T, generated int) map[string][]byte {
	files, _ := filepath.Glob("../testdata/anthropic/bodies/*.json")
	if len(files) < 100 {
		t.Fatalf("only %d captured bodies", len(files))
	}
	all := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(f)] = b
	}
	r := rand.New(rand.NewPCG(7, 7))
	for i := range generated {
		all["generated "+strconv.Itoa(i)] = generate(r)
	}
	return all
}

var blocks = []string{
	`{"type":"text","text":"<a&b> \u00e9\ud83d\ude00 \"model\":\"no\""}`,
	`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`,
	`{"type":"image","source":{"type":"url","url":"https://example.test/a?b=c"}}`,
	`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"x"},"title":"t","citations":{"enabled":true}}`,
	`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}`,
	`{"type":"tool_use","id":"toolu_1","name":"f","input":{"id":9007199254740993,"n":1.10,"big":1e22,"neg":-0.0,"a":[],"o":{}}}`,
	`{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"tool_reference","tool_name":"x"}],"is_error":false}`,
	`{"type":"thinking","thinking":"","signature":"REAL=="}`,
	`{"type":"redacted_thinking","data":"AAAA"}`,
	`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"q"}}`,
	`{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_search_tool_result_error","error_code":"x"}}`,
	`{"type":"container_upload","file_id":"f"}`,
	`{"type":"something_new","x":[[[{"y":null}]]],"cache_control":{"type":"ephemeral","ttl":"1h"}}`,
}

// generate makes a body with its members in random order, odd spacing and some members twice.
func generate(r *rand.Rand) []byte {
	var content []string
	for range 1 + r.IntN(6) {
		content = append(content, blocks[r.IntN(len(blocks))])
	}
	members := []string{
		`"messages":[{"role":"user","content":[` + strings.Join(content, ",") + `]},{"role":"assistant","content":"\ud83d\ude00 \\ \/"}]`,
		`"max_tokens":` + strconv.Itoa(2+r.IntN(1000)),
		[]string{`"model":"claude-x"`, `"mod\u0065l" : "claude\u002dx"`, `"model":"claude-x"`}[r.IntN(3)],
		`"system":"<sys> ] } , { \"model\": \"zzz\" \u2028"`,
		`"metadata":{"user_id":"u\"1","model":"inner"}`,
		`"temperature":0.95`, `"temperature":0.95`, `"top_k":9007199254740993`,
		`"tools":[{"name":"model","input_schema":{"type":"object","properties":{"model":{"type":"string"},"Z":{},"a":{"enum":[1.0,1e3,-5]}}}}]`,
		`"x_new":{"model":"inner","b":[true,false,null]}`,
		`"` + strings.Repeat("k", r.IntN(80)) + `":"v"`,
	}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	space := []string{"", " ", "\n\t", "\r\n"}
	var b strings.Builder
	b.WriteString(space[r.IntN(4)] + "{")
	for i, m := range members {
		if i > 0 {
			b.WriteString(space[r.IntN(4)] + "," + space[r.IntN(4)])
		}
		b.WriteString(m)
	}
	b.WriteString(space[r.IntN(4)] + "}" + space[r.IntN(4)])
	return []byte(b.String())
}

// withModel replaces the model's value by an oracle of its own: the token offsets of encoding/json.
func withModel(t *testing.T, body []byte, model string) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	depth, isKey := 0, true
	for {
		tok, err := d.Token()
		if err != nil {
			t.Fatalf("no model in the body: %v", err)
		}
		switch v := tok.(type) {
		case json.Delim:
			if v == '{' || v == '[' {
				depth++
			} else {
				depth--
			}
			isKey = true
			continue
		case string:
			if depth == 1 && isKey && v == "model" {
				start := d.InputOffset()
				if _, err := d.Token(); err != nil {
					t.Fatal(err)
				}
				end := d.InputOffset()
				start += int64(bytes.IndexByte(body[start:], '"'))
				return append(append(append([]byte{}, body[:start]...), model...), body[end:]...)
			}
		}
		if depth == 1 {
			isKey = !isKey
		}
	}
}

func TestRequestDiffersByTheModelAlone(t *testing.T) {
	var got []byte
	r := newRig(t, 1, map[string]string{"*": "upstream-<model>"}, nil, func(w http.ResponseWriter, q *http.Request) {
		var err error
		if got, err = io.ReadAll(q.Body); err != nil {
			t.Error(err)
		}
		if q.ContentLength != int64(len(got)) {
			t.Errorf("content-length %d for %d bytes", q.ContentLength, len(got))
		}
		io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"enough"}}`)
	})
	same := newRig(t, 1, nil, nil, func(w http.ResponseWriter, q *http.Request) {
		got, _ = io.ReadAll(q.Body)
		io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"enough"}}`)
	})
	all := bodies(t, 150)
	if len(all) < 200 {
		t.Fatalf("%d bodies", len(all))
	}
	for name, body := range all {
		if resp, answer := r.post(t, body); resp.StatusCode != 400 || !bytes.Contains(answer, []byte("enough")) {
			t.Fatalf("%s: %d %s", name, resp.StatusCode, answer)
		}
		if want := withModel(t, body, `"upstream-<model>"`); !bytes.Equal(got, want) {
			t.Fatalf("%s: the upstream got\n%s\nwant\n%s", name, got, want)
		}
		same.post(t, body)
		if !bytes.Equal(got, body) {
			t.Fatalf("%s: without a mapping the upstream got\n%s\nwant\n%s", name, got, body)
		}
	}
}

// A plain answer reaches the client byte for byte, in any length and however it is cut.
func TestPlainAnswerUnchanged(t *testing.T) {
	r := newRig(t, 1, nil, nil, nil)
	text := `{"id":"msg_1","type":"message","content":[{"type":"text","text":"\u00e9 <b> \"usage\":{\"input_tokens\":99}"}],` +
		` "stop_reason":"end_turn","usage":{"input_tokens":3,"cache_read_input_tokens":500,"output_tokens":9007199254740993}}` + "\n"
	for cut := range len(text) + 1 {
		rel := r.relay(t, io.MultiReader(strings.NewReader(text[:cut]), strings.NewReader(text[cut:])), false)
		if fault, err := rel.head(0); fault != nil || err != nil {
			t.Fatalf("cut at %d: head: %v %v", cut, fault, err)
		}
		got, err := io.ReadAll(rel)
		if err != nil || string(got) != text {
			t.Fatalf("cut at %d: %q, %v", cut, got, err)
		}
		rec := r.records.last(t)
		if rec.Outcome != "ok" || rec.InputTokens != 3 || rec.CacheReadTokens != 500 || rec.OutputTokens != 9007199254740993 || rec.StopReason != "end_turn" {
			t.Fatalf("cut at %d: %+v", cut, rec)
		}
		rel.Close()
	}
	for _, size := range []int{100, 5000, 70_000, 3_000_000} {
		text := fmt.Sprintf(`{"content":[{"text":%q}],"usage":{"input_tokens":1,"output_tokens":%d}}`, strings.Repeat("x", size), size)
		rel := r.relay(t, strings.NewReader(text), false)
		if fault, err := rel.head(0); fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		if got, err := io.ReadAll(rel); err != nil || string(got) != text || r.records.last(t).OutputTokens != int64(size) {
			t.Fatalf("%d bytes: %d bytes, %v, %+v", size, len(got), err, r.records.last(t))
		}
		rel.Close()
	}
}

// The end of a plain answer waits for the journal: until the source has ended, a byte is missing.
func TestPlainEndWaitsForTheJournal(t *testing.T) {
	r := newRig(t, 1, nil, nil, nil)
	text := `{"content":[],"usage":{"input_tokens":3,"output_tokens":4}}`
	src, in := io.Pipe()
	rel := r.relay(t, src, false)
	go in.Write([]byte(text))
	if fault, err := rel.head(0); fault != nil || err != nil {
		t.Fatal(fault, err)
	}
	got := make([]byte, 1000)
	n, err := rel.Read(got)
	if err != nil || n != len(text)-1 {
		t.Fatalf("%d bytes of %d, %v", n, len(text), err)
	}
	if len(r.records.list) != 0 {
		t.Fatal("recorded before the end")
	}
	in.Close()
	if rest, err := io.ReadAll(rel); err != nil || string(rest) != "}" {
		t.Fatalf("%q %v", rest, err)
	}
}

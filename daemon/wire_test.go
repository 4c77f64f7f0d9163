package daemon

import (
	"fmt"
	"strings"
	"testing"

	"coding-proxy/stats"
)

// chunk is a chunk of a chat stream with one choice; delta and finish are JSON.
func chunk(delta, finish string, more ...string) string {
	return fmt.Sprintf("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]%s}\n\n",
		delta, finish, rest(more))
}

// textChunk is one with a word, as OpenAI writes it.
func textChunk(word string) string { return chunk(fmt.Sprintf(`{"content":%q}`, word), "null") }

const (
	chatUsage = `"usage":{"prompt_tokens":100,"completion_tokens":40,"total_tokens":140,"prompt_tokens_details":{"cached_tokens":90,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":30,"audio_tokens":0}}`
	chatLast  = "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1767225600,\"model\":\"m\",\"choices\":[]," + chatUsage + "}\n\n"
	chatDone  = "data: [DONE]\n\n"
)

var (
	chatRole  = chunk(`{"role":"assistant","content":"","refusal":null}`, "null")
	chatText  = textChunk("walrus ")
	chatStop  = chunk(`{}`, `"stop"`)
	chatBegin = chatRole + chatText
	chatRest  = chatStop + chatLast + chatDone
	chatAll   = chatBegin + chatRest
)

const chatPlain = `{ "id":"chatcmpl-1","object":"chat.completion","created":1767225600,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"walrus","refusal":null},"logprobs":null,"finish_reason":"stop"}],` + chatUsage + `,"x_vendor":[1.10] }`

// responseEvent is an event of a Responses stream; more are its members.
func responseEvent(kind string, sequence int, more string) string {
	return fmt.Sprintf("event: %s\ndata: {\"type\":%q,\"sequence_number\":%d,%s}\n\n", kind, kind, sequence, more)
}

// responseOf is a response in a state; more are further members.
func responseOf(status, output string, more ...string) string {
	return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1767225600,"status":%q,"error":null,"incomplete_details":null,"model":"m","output":[%s]%s}`, status, output, rest(more))
}

const (
	responsesUsage = `"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":90},"output_tokens":40,"output_tokens_details":{"reasoning_tokens":30},"total_tokens":140}`
	responsesItem  = `{"id":"msg_1","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"walrus ","annotations":[]}]}`
)

var (
	respCreated  = responseEvent("response.created", 0, `"response":`+responseOf("in_progress", ""))
	respProgress = responseEvent("response.in_progress", 1, `"response":`+responseOf("in_progress", ""))
	respItem     = responseEvent("response.output_item.added", 2, `"output_index":0,"item":{"id":"msg_1","type":"message","status":"in_progress","role":"assistant","content":[]}`)
	respDelta    = responseEvent("response.output_text.delta", 3, `"item_id":"msg_1","output_index":0,"content_index":0,"delta":"walrus "`)
	respEnd      = responseEvent("response.output_item.done", 4, `"output_index":0,"item":`+responsesItem)
	respDone     = responseEvent("response.completed", 5, `"response":`+responseOf("completed", responsesItem, responsesUsage))
	respBegin    = respCreated + respProgress + respItem + respDelta
	respRest     = respEnd + respDone
	respAll      = respBegin + respRest
	respPlain    = responseOf("completed", responsesItem, responsesUsage)
)

// geminiEvent is a chunk of a Gemini stream as Google writes it.
func geminiEvent(chunk string) string { return "data: " + chunk + "\r\n\r\n" }

// candidate is a chunk with a word; more are further members of the candidate.
func candidate(word, usage string, more ...string) string {
	return fmt.Sprintf(`{"candidates": [{"content": {"parts": [{"text": %q}],"role": "model"},"index": 0%s}],"usageMetadata": {%s},"modelVersion": "m","responseId": "r1"}`, word, rest(more), usage)
}

const geminiFigures = `"promptTokenCount": 100,"cachedContentTokenCount": 90,"candidatesTokenCount": 10,"thoughtsTokenCount": 30,"totalTokenCount": 140`

var (
	geminiFirst = candidate("walrus ", `"promptTokenCount": 100,"candidatesTokenCount": 1,"totalTokenCount": 101`)
	geminiLast  = candidate("again", geminiFigures, `"finishReason": "STOP"`)
	geminiAll   = geminiEvent(geminiFirst) + geminiEvent(geminiLast)
	geminiArray = "[" + geminiFirst + "\n,\r\n" + geminiLast + "\n]\n"
)

// beginning is the good head of a small stream of a dialect, and wholeStream all of it.
func beginning(dialect string) string {
	return map[string]string{claude: evBegin, chat: chatBegin, responses: respBegin, gemini: geminiEvent(geminiFirst)}[dialect]
}

func wholeStream(dialect string) string {
	return map[string]string{claude: evAll, chat: chatAll, responses: respAll, gemini: geminiAll}[dialect]
}

func plainAnswer(dialect string) string {
	return map[string]string{claude: whole, chat: chatPlain, responses: respPlain, gemini: geminiLast}[dialect]
}

// costs are figures of the journal: input, output, cache creation, cache read, reasoning.
type costs [5]int64

func costsOf(r stats.Record) costs {
	return costs{r.InputTokens, r.OutputTokens, r.CacheCreationTokens, r.CacheReadTokens, r.ReasoningTokens}
}

// usual are those of the answers above.
var usual = costs{10, 40, 0, 90, 30}

// rawCase is an answer of an upstream to a client of its own dialect.
type rawCase struct {
	name, dialect string
	text          string
	want          string // "" = the same
	stop          string
	costs         costs
	estimated     bool
}

// rawStreams runs cases, streamed in pieces of a few bytes and at once.
func rawStreams(t *testing.T, cases []rawCase, array bool) {
	t.Helper()
	for _, c := range cases {
		for name, pieces := range map[string][]string{"at once": {c.text}, "in small pieces": cutIn(c.text, 7+len(c.text)/1000)} {
			t.Run(c.dialect+" "+c.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				i := start(t, poolOf(protocolKey(k1, c.dialect, newBackend(t, pours(pieces...)).URL)))
				path := pathOf(c.dialect, "m", true)
				if array {
					path = strings.TrimSuffix(path, "?alt=sse")
				}
				r := i.send(c.dialect, path, bodyOf(c.dialect, "m", true))
				want := c.want
				if want == "" {
					want = c.text
				}
				if r.status != 200 || r.err != nil || r.body != want {
					t.Errorf("status %d, %v: %s", r.status, r.err, differ(r.body, want))
				}
				rec := i.record(r.trace())
				if rec.Outcome != "ok" || rec.StopReason != c.stop || rec.Estimated != c.estimated || costsOf(rec) != c.costs && !c.estimated || !rec.Stream || rec.Upstream != c.dialect {
					t.Errorf("journal: outcome %s, stop %q, estimated %t, costs %v, upstream %s", rec.Outcome, rec.StopReason, rec.Estimated, costsOf(rec), rec.Upstream)
				}
				if c.estimated && (rec.OutputTokens < 1 || rec.InputTokens < 1) {
					t.Errorf("estimates: %v", costsOf(rec))
				}
				i.untouched(k1)
			})
		}
	}
}

// differ says where two texts part.
func differ(got, want string) string {
	n := 0
	for n < len(got) && n < len(want) && got[n] == want[n] {
		n++
	}
	return fmt.Sprintf("after %d bytes %.160q, want %.160q", n, got[n:], want[n:])
}

func cutIn(text string, n int) (pieces []string) {
	for len(text) > n {
		pieces, text = append(pieces, text[:n]), text[n:]
	}
	return append(pieces, text)
}

package anthropic

import (
	"encoding/json"
	"fmt"
	"strings"

	"coding-proxy/proxy/sse"
)

// folded is the message that a client makes of a stream or takes from a plain answer.
type folded struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []jsonObject    `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	StopDetails  json.RawMessage `json:"stop_details,omitempty"`
	Usage        jsonObject      `json:"usage"`
}

// strictClient reads a stream as the official SDK does (facts/protocols.md 1.7) and refuses what that would trip over.
func strictClient(stream []byte) (m *folded, failed bool, err error) {
	active, ended := -1, false
	var args strings.Builder
	for len(stream) > 0 {
		n := sse.Next(stream)
		if n == 0 {
			return m, failed, fmt.Errorf("half an event: %q", stream)
		}
		name, data := sse.Parse(stream[:n])
		stream = stream[n:]
		if len(name) == 0 && len(data) == 0 {
			continue
		}
		var e struct {
			Type         string
			Index        *int
			Message      *folded
			ContentBlock jsonObject `json:"content_block"`
			Delta        jsonObject
			Usage        jsonObject
			Error        *struct{ Type, Message string }
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return m, failed, err
		}
		if string(name) != e.Type || ended {
			return m, failed, fmt.Errorf("event %q with type %q, after the end: %v", name, e.Type, ended)
		}
		if e.Type == "error" {
			if e.Error == nil || e.Error.Type == "" {
				return m, true, fmt.Errorf("an error without a type")
			}
			ended, failed = true, true
			continue
		}
		if (e.Type == "message_start") != (m == nil) {
			return m, failed, fmt.Errorf("%s at a wrong place", e.Type)
		}
		switch e.Type {
		case "message_start":
			m = e.Message
			if m.ID == "" || m.Type != "message" || m.Role != "assistant" || m.Content == nil || m.StopReason != nil || m.Usage["input_tokens"] == nil || m.Usage["output_tokens"] == nil {
				return m, failed, fmt.Errorf("a bad message_start: %s", data)
			}
		case "content_block_start":
			if active >= 0 || *e.Index != len(m.Content) || m.StopReason != nil {
				return m, failed, fmt.Errorf("block %d starts while %d is open, or after the end", *e.Index, active)
			}
			active = *e.Index
			m.Content = append(m.Content, e.ContentBlock)
			args.Reset()
		case "content_block_delta":
			if *e.Index != active {
				return m, failed, fmt.Errorf("a delta of block %d, %d is open", *e.Index, active)
			}
			b := m.Content[active]
			for kind, field := range map[string][2]string{"text_delta": {"text", "text"}, "thinking_delta": {"thinking", "thinking"}, "signature_delta": {"thinking", "signature"}} {
				if e.Delta["type"] == kind {
					if b["type"] != field[0] {
						return m, failed, fmt.Errorf("a %s in a block %v", kind, b["type"])
					}
					was, _ := b[field[1]].(string)
					more, _ := e.Delta[field[1]].(string)
					if b[field[1]] = was + more; more == "" {
						return m, failed, fmt.Errorf("an empty %s", kind)
					}
				}
			}
			if e.Delta["type"] == "input_json_delta" {
				if b["type"] != "tool_use" {
					return m, failed, fmt.Errorf("arguments in a block %v", b["type"])
				}
				s, _ := e.Delta["partial_json"].(string)
				args.WriteString(s)
			}
		case "content_block_stop":
			if *e.Index != active {
				return m, failed, fmt.Errorf("block %d stops, %d is open", *e.Index, active)
			}
			if b := m.Content[active]; args.Len() > 0 {
				var in any
				if json.Unmarshal([]byte(args.String()), &in) != nil {
					in = jsonObject{"_raw": args.String()}
				}
				b["input"] = in
			} else if b["type"] == "text" && b["text"] == "" {
				return m, failed, fmt.Errorf("an empty block")
			}
			active = -1
		case "message_delta":
			if active >= 0 || m.StopReason != nil {
				return m, failed, fmt.Errorf("message_delta with an open block, or twice")
			}
			s, _ := e.Delta["stop_reason"].(string)
			m.StopReason = &s
			if q, ok := e.Delta["stop_sequence"].(string); ok {
				m.StopSequence = &q
			}
			if d := e.Delta["stop_details"]; d != nil {
				m.StopDetails, _ = json.Marshal(d)
			}
			for k, v := range e.Usage {
				if v != nil {
					m.Usage[k] = v
				}
			}
		case "message_stop":
			if ended = true; m.StopReason == nil {
				return m, failed, fmt.Errorf("message_stop without a reason")
			}
		case "ping":
		default:
			return m, failed, fmt.Errorf("an unknown event %q", e.Type)
		}
	}
	if !ended {
		return m, failed, fmt.Errorf("no end")
	}
	return m, failed, nil
}

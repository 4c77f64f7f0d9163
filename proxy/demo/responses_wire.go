package demo

import "encoding/json"

// The JSON shapes of the Responses API: facts/protocols.md, 3.3 and 3.4.

type response struct {
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	CreatedAt         int64              `json:"created_at"`
	CompletedAt       *int64             `json:"completed_at"`
	Status            string             `json:"status"`
	Background        bool               `json:"background"`
	Error             *responseError     `json:"error"`
	IncompleteDetails *incompleteDetails `json:"incomplete_details"`
	Instructions      json.RawMessage    `json:"instructions"`
	MaxOutputTokens   json.RawMessage    `json:"max_output_tokens"`
	Model             string             `json:"model"`
	Output            []responseItem     `json:"output"`
	ParallelToolCalls bool               `json:"parallel_tool_calls"`
	PreviousID        *string            `json:"previous_response_id"`
	Reasoning         json.RawMessage    `json:"reasoning"`
	ServiceTier       string             `json:"service_tier"`
	Store             bool               `json:"store"`
	Temperature       json.RawMessage    `json:"temperature"`
	Text              json.RawMessage    `json:"text"`
	ToolChoice        json.RawMessage    `json:"tool_choice"`
	Tools             json.RawMessage    `json:"tools"`
	TopP              json.RawMessage    `json:"top_p"`
	Truncation        string             `json:"truncation"`
	Usage             *responseUsage     `json:"usage"`
	Metadata          json.RawMessage    `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incompleteDetails struct {
	Reason string `json:"reason"`
}

// responseItem is a message, a reasoning item or a call. Pointers are fields that are sent even when empty.
type responseItem struct {
	ID        string          `json:"id"`
	Type      string          `json:"type"`
	Status    string          `json:"status,omitempty"`
	Role      string          `json:"role,omitempty"`
	Content   *[]responsePart `json:"content,omitempty"`
	Summary   *[]responsePart `json:"summary,omitempty"`
	Encrypted string          `json:"encrypted_content,omitempty"`
	CallID    string          `json:"call_id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Namespace string          `json:"namespace,omitempty"`
	Arguments *string         `json:"arguments,omitempty"`
	Input     *string         `json:"input,omitempty"`
}

type responsePart struct {
	Type        string      `json:"type"`
	Text        *string     `json:"text,omitempty"`
	Refusal     *string     `json:"refusal,omitempty"`
	Annotations *[]struct{} `json:"annotations,omitempty"`
	Logprobs    *[]struct{} `json:"logprobs,omitempty"`
}

type responseUsage struct {
	Input         int                   `json:"input_tokens"`
	InputDetails  responseInputDetails  `json:"input_tokens_details"`
	Output        int                   `json:"output_tokens"`
	OutputDetails responseOutputDetails `json:"output_tokens_details"`
	Total         int                   `json:"total_tokens"`
}

type responseInputDetails struct {
	Cached     int `json:"cached_tokens"`
	CacheWrite int `json:"cache_write_tokens"`
}

type responseOutputDetails struct {
	Reasoning int `json:"reasoning_tokens"`
}

// responseEvent is any event; what an event does not have is left out.
type responseEvent struct {
	Type         string        `json:"type"`
	Sequence     int           `json:"sequence_number"`
	Response     *response     `json:"response,omitempty"`
	ItemID       string        `json:"item_id,omitempty"`
	OutputIndex  *int          `json:"output_index,omitempty"`
	ContentIndex *int          `json:"content_index,omitempty"`
	SummaryIndex *int          `json:"summary_index,omitempty"`
	Item         *responseItem `json:"item,omitempty"`
	Part         *responsePart `json:"part,omitempty"`
	Delta        *string       `json:"delta,omitempty"`
	Text         *string       `json:"text,omitempty"`
	Refusal      *string       `json:"refusal,omitempty"`
	Arguments    *string       `json:"arguments,omitempty"`
	Input        *string       `json:"input,omitempty"`
	Name         string        `json:"name,omitempty"`
	Logprobs     *[]struct{}   `json:"logprobs,omitempty"`
}

func (u Usage) responses() *responseUsage {
	return &responseUsage{
		Input: u.prompt(), Output: u.Output, Total: u.prompt() + u.Output,
		InputDetails:  responseInputDetails{Cached: u.CacheRead, CacheWrite: u.CacheCreation},
		OutputDetails: responseOutputDetails{Reasoning: u.Reasoning},
	}
}

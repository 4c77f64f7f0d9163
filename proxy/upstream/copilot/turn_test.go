package copilot

import "testing"

func TestInitiator(t *testing.T) {
	messages := func(list string) string { return `{"model":"m","messages":[` + list + `]}` }
	input := func(list string) string { return `{"model":"m","input":[` + list + `]}` }
	const (
		asks   = `{"role":"user","content":"hi"}`
		says   = `{"role":"assistant","content":"yes"}`
		result = `{"type":"tool_result","tool_use_id":"t","content":"{\"role\":\"user\"}"}`
		words  = `{"type":"text","text":"and now?"}`
	)
	for name, test := range map[string]struct{ dialect, body, want string }{
		"a question":               {anthropic, messages(asks), byUser},
		"a later question":         {anthropic, messages(asks + "," + says + "," + asks), byUser},
		"blocks":                   {anthropic, messages(`{"role":"user","content":[` + words + `]}`), byUser},
		"a result":                 {anthropic, messages(asks + `,{"role":"user","content":[` + result + `]}`), byAgent},
		"results":                  {anthropic, messages(`{"content":[` + result + `,` + result + `],"role":"user"}`), byAgent},
		"a result and words":       {anthropic, messages(`{"role":"user","content":[` + result + `,` + words + `]}`), byUser},
		"an image":                 {anthropic, messages(`{"role":"user","content":[{"type":"image","source":{}}]}`), byUser},
		"the model's own":          {anthropic, messages(asks + "," + says), byAgent},
		"instructions behind":      {anthropic, messages(asks + "," + says + `,` + asks + `,{"role":"system","content":"x"}`), byUser},
		"instructions behind it":   {anthropic, messages(asks + `,{"role":"user","content":[` + result + `]},{"role":"system","content":"x"}`), byAgent},
		"no blocks":                {anthropic, messages(`{"role":"user","content":[]}`), byUser},
		"no messages":              {anthropic, messages(``), byUser},
		"no member":                {anthropic, `{}`, byUser},
		"no JSON":                  {anthropic, `{"messages":[`, byUser},
		"nothing":                  {anthropic, ``, byUser},
		"the last messages count":  {anthropic, `{"messages":[` + says + `],"messages":[` + asks + `]}`, byUser},
		"chat: a question":         {openAIChat, messages(`{"role":"system","content":"x"},` + asks), byUser},
		"chat: a later question":   {openAIChat, messages(asks + "," + says + "," + asks), byUser},
		"chat: a result":           {openAIChat, messages(asks + `,{"role":"tool","tool_call_id":"t","content":"x"}`), byAgent},
		"chat: an old result":      {openAIChat, messages(asks + `,{"role":"function","name":"t","content":"x"}`), byAgent},
		"chat: the model's own":    {openAIChat, messages(asks + "," + says), byAgent},
		"chat: reminder behind":    {openAIChat, messages(asks + `,{"role":"tool","tool_call_id":"t","content":"x"},{"role":"developer","content":"x"}`), byAgent},
		"chat: instructions alone": {openAIChat, messages(`{"role":"system","content":"x"}`), byUser},
		"chat: escaped":            {openAIChat, messages(says + `,{"r\u006fle":"us\u0065r","content":"x"}`), byUser},
		"a text":                   {openAIResponses, `{"input":"hi"}`, byUser},
		"an item":                  {openAIResponses, input(`{"type":"message","role":"user","content":[]}`), byUser},
		"an item without type":     {openAIResponses, input(asks), byUser},
		"an output":                {openAIResponses, input(asks + `,{"type":"function_call","name":"a"},{"type":"function_call_output","output":"x"}`), byAgent},
		"reasoning":                {openAIResponses, input(asks + `,{"type":"reasoning"}`), byAgent},
		"the model's item":         {openAIResponses, input(asks + `,{"type":"message","role":"assistant","content":[]}`), byAgent},
		"tools behind":             {openAIResponses, input(asks + `,{"type":"additional_tools","role":"developer","tools":[]}`), byUser},
		"no items":                 {openAIResponses, input(``), byUser},
	} {
		if got := readTurn(test.dialect, []byte(test.body)).initiator; got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestVision(t *testing.T) {
	for name, test := range map[string]struct {
		dialect, body string
		want          bool
	}{
		"image":            {anthropic, `{"messages":[{"role":"user","content":[{"type":"image"}]},{"role":"assistant","content":"x"}]}`, true},
		"in a result":      {anthropic, `{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}`, true},
		"a word":           {anthropic, `{"messages":[{"role":"user","content":"an image {\"type\":\"image\"}"}]}`, false},
		"a call's input":   {anthropic, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"type":"image"}}]}]}`, false},
		"a tool":           {anthropic, `{"tools":[{"name":"image","content":[{"type":"image"}]}],"messages":[{"role":"user","content":"x"}]}`, false},
		"none":             {anthropic, `{"messages":[{"role":"user","content":"x"}]}`, false},
		"chat":             {openAIChat, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"data:"}}]}]}`, true},
		"chat: the words":  {openAIChat, `{"messages":[{"role":"user","content":[{"type":"text","text":"image_url"}]}]}`, false},
		"responses":        {openAIResponses, `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:"}]}]}`, true},
		"an output":        {openAIResponses, `{"input":[{"type":"function_call_output","output":[{"type":"input_image"}]}]}`, true},
		"a screenshot":     {openAIResponses, `{"input":[{"type":"computer_call_output","output":{"type":"computer_screenshot"}}]}`, true},
		"a generated one":  {openAIResponses, `{"input":[{"type":"image_generation_call","result":"x"}]}`, false},
		"a text for input": {openAIResponses, `{"input":"input_image"}`, false},
	} {
		if got := readTurn(test.dialect, []byte(test.body)).image; got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

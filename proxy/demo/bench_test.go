package demo_test

import (
	"testing"

	"coding-proxy/proxy/demo"
)

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		demo.New(demo.Options{})
	}
}

func BenchmarkMessages(b *testing.B) {
	body := bodies(b, "anthropic")[0].body
	p := demo.New(demo.Options{})
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		judge(p, "anthropic", "/v1/messages", body)
	}
}

func BenchmarkResponses(b *testing.B) {
	body := bodies(b, "openai-responses")[0].body
	p := demo.New(demo.Options{})
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		judge(p, "openai-responses", responsesPath, body)
	}
}

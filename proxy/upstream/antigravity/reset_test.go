package antigravity

import (
	"testing"
	"time"
)

// Who signs in as somebody else has another project, also while the first one is being looked for.
func TestReset(t *testing.T) {
	h := &home{}
	first := &search{}
	h.search = first
	h.forget("")
	second := &search{}
	h.search = second
	h.found(first, "of the first", nil, time.Now())
	if id, _ := h.state(); id != "" {
		t.Errorf("project %q", id)
	}
	h.found(second, "of the second", nil, time.Now())
	if id, _ := h.state(); id != "of the second" {
		t.Errorf("project %q", id)
	}
	h.forget("configured")
	if id, _ := h.state(); id != "configured" {
		t.Errorf("project %q", id)
	}
}

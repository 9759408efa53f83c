package generator

import (
	"strings"
	"testing"
	"unicode/utf8"

	"debrief/playbook/text"
)

func TestRawReply(t *testing.T) {
	t.Parallel()
	secret := "sk-" + strings.Repeat("a1B2c3D4", 6)
	reply := `{"reasoning":"the key is ` + secret + `","final_answer":"é"}`
	if got := (Config{}).WithDefaults().rawReply(reply); got != "" {
		t.Errorf("default: got %q, want nothing stored", got)
	}
	for limit := 1; limit < len(reply)+20; limit++ {
		got := Config{RawReply: limit}.rawReply(reply)
		if len(got) > limit+len(text.Ellipsis) || !utf8.ValidString(got) || strings.Contains(got, "sk-") {
			t.Errorf("%d bytes: got %q, want at most that and an ellipsis, valid UTF-8, and no part of the key", limit, got)
		}
	}
	for _, limit := range []int{-1, maxRawReply + 1} {
		if err := (Config{RawReply: limit}).Validate(); err == nil || !strings.Contains(err.Error(), "RawReply") {
			t.Errorf("%d: got %v, want an error that names the field", limit, err)
		}
	}
}

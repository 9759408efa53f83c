package simulated

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestCachedTokens: a prompt is cached up to the last whole block that it shares with any earlier prompt of its key.
func TestCachedTokens(t *testing.T) {
	t.Parallel()
	block := strings.Repeat("0123456789abcdef", bytesPerToken*blockTokens/16)
	var c cache
	for _, test := range []struct {
		key, prompt  string
		input, taken int
	}{
		{"a", block + block + "rest", 130, 0},
		{"a", block + block + "other", 130, 128},
		{"a", block, 65, 64},
		{"a", block[1:] + block, 128, 0},
		{"a", block + block + block, 193, 128},
		{"a", block + block[1:] + "x", 129, 64},
		{"a", block + block + block, 193, 192},
		{"b", block + block, 129, 0},
		{"a", "", 1, 0},
	} {
		if u := c.count(test.key, []byte(test.prompt)); u.Input != test.input || u.Cached != test.taken {
			t.Errorf("%s, %d bytes: got %+v, want %d tokens, %d cached", test.key, len(test.prompt), u, test.input, test.taken)
		}
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "short", "one two three four", strings.Repeat("x", 40), strings.Repeat("漢", 20), "a 漢漢漢漢漢漢"} {
		all := pieces(text)
		if strings.Join(all, "") != text {
			t.Errorf("%q: got %q", text, all)
		}
		for _, p := range all {
			if len(p) > 12 || strings.ToValidUTF8(p, "") != p {
				t.Errorf("%q: got the piece %q", text, p)
			}
		}
	}
}

// FuzzRequest sends any body to each API. The answer is JSON, or a stream.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","messages":[{"role":"user","content":"x"}]}`,
		`{"model":"m","stream":true,"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},{"role":"tool","content":"y","tool_call_id":"1"}]}`,
		`{"model":"m","max_tokens":1,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true,"content":[{"text":"z"}]},{"type":"image"}]}]}`,
		`{"model":"m","stream":true,"input":[{"type":"function_call","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":"x"}]}`,
		`{"model":"m","input":"x","previous_response_id":"resp_fake000001"}`,
	} {
		f.Add(seed)
	}
	u := NewProvider(nil)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"} {
			w := httptest.NewRecorder()
			u.ServeHTTP(w, httptest.NewRequest("POST", path, strings.NewReader(body)))
			stream := strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
			if !stream && !json.Valid(w.Body.Bytes()) || stream && !strings.HasSuffix(w.Body.String(), "\n\n") {
				t.Errorf("%s: got %d %q", path, w.Code, w.Body)
			}
		}
	})
}

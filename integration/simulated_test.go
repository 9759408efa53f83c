package integration

import (
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestAgentsOfAllAPIsWithoutAKey starts 'debrief up --simulated' alone, and sends a conversation with a tool of each model API to its gateway.
func TestAgentsOfAllAPIsWithoutAKey(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process: run without -short")
	}
	t.Parallel()
	bin, dir, health, door := program(t, "debrief"), t.TempDir(), freeAddress(t), freeAddress(t)
	start(t, "up", func() *exec.Cmd {
		return exec.Command(bin, "up", "--simulated", "--data", dir, "--listen", "127.0.0.1:0", "--http", door, "--health", health)
	})
	awaitReady(t, health)
	send := func(path, body string) (text string) {
		t.Helper()
		eventually(t, 20*time.Second, "an answer at "+path, func() error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+door+path, strings.NewReader(body))
			if err != nil {
				return err
			}
			r.Header.Set("Content-Type", "application/json")
			if path == "/v1/messages" {
				r.Header.Set("Anthropic-Version", "2023-06-01")
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			text = string(raw)
			if err == nil && resp.StatusCode != http.StatusOK {
				t.Errorf("%s: got %s: %s", path, resp.Status, raw)
			}
			return err
		})
		return text
	}
	const order, schema = "Call `find_berth` {\\\"ship\\\": \\\"Heron\\\"} for me.", `{"type":"object"}`
	for path, body := range map[string]string{
		"/v1/chat/completions": `{"model":"any","messages":[{"role":"user","content":"` + order + `"}],"tools":[{"type":"function","function":{"name":"find_berth","parameters":` + schema + `}}]}`,
		"/v1/responses":        `{"model":"any","input":"` + order + `","tools":[{"type":"function","name":"find_berth","parameters":` + schema + `}]}`,
		"/v1/messages":         `{"model":"any","max_tokens":100,"messages":[{"role":"user","content":"` + order + `"}],"tools":[{"name":"find_berth","input_schema":` + schema + `}]}`,
	} {
		if got := send(path, body); !strings.Contains(got, "find_berth") || !strings.Contains(got, "Heron") || !strings.Contains(got, "simulated-invoice-desk") {
			t.Errorf("%s: got %s, want a call of the tool by the simulated model", path, got)
		}
		streamed := send(path, `{"stream":true,`+body[1:])
		if !strings.Contains(streamed, "data: ") || !strings.Contains(streamed, "find_berth") {
			t.Errorf("%s: got the stream %s", path, streamed)
		}
	}
}

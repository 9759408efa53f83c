package program_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/chat/openai"
	"debrief/generator/scoring"
)

// parsed contains the model flags as a program parses them.
func parsed(t *testing.T, args ...string) (program.Model, program.Embedding) {
	t.Helper()
	var cli struct {
		program.Model
		program.Embedding
	}
	parser, err := kong.New(&cli)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parser.Parse(args); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(args, "--api-key") {
		cli.APIKey = "" // ignore the environment of the tests
	}
	return cli.Model, cli.Embedding
}

// write creates a file with a text and returns its name.
func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestEmbedderUsesItsServerAndKey(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 1)
	serve := func(name string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- name + r.URL.Path + " " + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			_, _ = w.Write([]byte(`{"data":[{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":1000000}}`))
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	chats, embeds := serve("chats"), serve("embeds")
	file := write(t, "sk-file\n")
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"the model's server and key", []string{"--base-url", chats + "/v1", "--api-key", "sk-chat"}, "chats/v1/embeddings sk-chat"},
		{"the key in its file", []string{"--base-url", chats + "/v1", "--api-key-file", file}, "chats/v1/embeddings sk-file"},
		{"another path there", []string{"--base-url", chats + "/v1", "--api-key", "sk-chat", "--embed-base-url", chats + "/v2"}, "chats/v2/embeddings sk-chat"},
		{"another server", []string{"--base-url", chats, "--api-key", "sk-chat", "--embed-base-url", embeds}, "embeds/embeddings "},
		{"another server than OpenAI's", []string{"--api-key", "sk-chat", "--embed-base-url", embeds}, "embeds/embeddings "},
		{"another server and its key", []string{"--base-url", chats, "--api-key", "sk-chat", "--embed-base-url", embeds, "--embed-api-key", "sk-embed"}, "embeds/embeddings sk-embed"},
		{"another key", []string{"--base-url", chats, "--api-key", "sk-chat", "--embed-api-key", "sk-embed"}, "chats/embeddings sk-embed"},
	} {
		m, e := parsed(t, append(tt.args, "--embed-model", "m", "--embed-input-price", "2")...)
		embedder, err := e.Embedder(m)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if _, err := embedder.Embed(t.Context(), []string{"a"}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if got := <-asked; got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
		client := embedder.(*openai.Embedder)
		if got := client.Stats().Cost; got != 2 || client.Model() != "m" {
			t.Errorf("%s: got a cost of %v and the model %s", tt.name, got, client.Model())
		}
		client.Close()
	}
}

func TestEmbeddingFlags(t *testing.T) {
	t.Parallel()
	m, e := parsed(t, "--base-url", "http://localhost/v1")
	if embedder, err := e.Embedder(m); embedder != nil || err != nil || e.EmbedModel != "" {
		t.Errorf("without a model: got %v, %v, %+v", embedder, err, e)
	}
	empty, long := write(t, " \n"), write(t, strings.Repeat("x", 16<<10+1))
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"--embed-model: ", nil},
		{"--embed-base-url: ", []string{"--embed-base-url", "localhost:80"}},
		{"--embed-api-key: ", []string{"--embed-api-key", "sk secret"}},
		{"--embed-timeout: ", []string{"--embed-api-key", "k", "--embed-timeout=-1s"}},
		{"--embed-input-price: ", []string{"--embed-api-key", "k", "--embed-input-price=-1"}},
		{"--api-key-file: ", []string{"--api-key-file", filepath.Join(t.TempDir(), "none")}},
		{"--api-key-file: ", []string{"--api-key-file", t.TempDir()}},
		{"--api-key-file: " + empty + ": ", []string{"--api-key-file", empty}},
		{"--api-key-file: " + long + ": ", []string{"--api-key-file", long}},
		{"--api-key-file: ", []string{"--api-key-file", empty, "--api-key", "sk-secret"}},
	} {
		m, e := parsed(t, append(tt.args, "--embed-model", "m")...)
		_, err := e.Embedder(m)
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) || program.ExitCode(err) != program.ExitUsage || strings.Contains(err.Error(), "secret") {
			t.Errorf("got %v, want a usage error that begins with %q", err, tt.want)
		}
	}
}

// Roles with the same model share its limits and what was learned about it, and count their own calls.
func TestRolesShareTheLimitsOfAModel(t *testing.T) {
	t.Parallel()
	var refused, asked atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.Add(1)
		if strings.Contains(string(body), "system") {
			refused.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"message":"System role not supported"}`))
			return
		}
		_, _ = w.Write([]byte(`{"choices":[{"message":{"content":"{}"},"finish_reason":"stop"}]}`))
	}))
	t.Cleanup(srv.Close)
	m, _ := parsed(t, "--base-url", srv.URL+"/v1", "--model", "m", "--curator-model", "other")
	m.SetDefaults()
	prompt := chat.Prompt{Messages: []chat.Message{{Speaker: chat.System, Text: "a"}, {Speaker: chat.User, Text: "b"}}}
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		c, err := m.Client(role)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Complete(t.Context(), prompt); err != nil {
			t.Fatal(err)
		}
		if got := c.Stats().Calls; got != 1 {
			t.Errorf("%s: got %d calls, want its own", role, got)
		}
	}
	if refused.Load() != 2 || asked.Load() != 5 {
		t.Errorf("got %d refusals of %d requests, want one of each model", refused.Load(), asked.Load())
	}
}

// TestJudgeHasItsOwnModel asks a judge, and looks at the model of the requests that the server gets.
func TestJudgeHasItsOwnModel(t *testing.T) {
	t.Parallel()
	var asked atomic.Value
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked.Store(string(body))
		_, _ = w.Write([]byte(`{"model":"x","choices":[{"message":{"content":"{\"reason\": \"r\", \"score\": 1}"},"finish_reason":"stop"}]}`))
	}))
	t.Cleanup(srv.Close)
	for want, args := range map[string][]string{`"strict-model"`: {"--judge-model", "strict-model"}, `"answering"`: nil} {
		m, _ := parsed(t, append(args, "--base-url", srv.URL+"/v1", "--model", "answering")...)
		m.SetDefaults()
		judge, err := m.Judge()
		if err != nil {
			t.Fatal(err)
		}
		answering, err := m.Client(events.RoleGenerator)
		if err != nil {
			t.Fatal(err)
		}
		defer answering.Close()
		scorer := scoring.NewScorer(scoring.Config{}, 1).WithModel(judge).WithModel(answering)
		o, _, err := scorer.Judge(t.Context(), &events.Task{Question: "q"}, scoring.Answer{Final: "a"}, nil)
		if err != nil || o.Label != events.Success || !strings.HasPrefix(o.By, "judge/x/") {
			t.Errorf("%v: got %+v, %v", args, o, err)
		}
		if body := asked.Load().(string); !strings.Contains(body, `"model":`+want) {
			t.Errorf("%v: asked %s, want the model %s", args, body, want)
		}
	}
}

package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"debrief/events"
	"debrief/events/chat"
)

// api is a fake of the API that advises with bullets, and records what it gets.
type api struct {
	*httptest.Server
	mu       sync.Mutex
	bullets  []string // texts; the id of a bullet is its number
	status   int      // of the replies; 0 for success
	contexts []events.ContextRequest
	reports  []events.Report
	feedback []events.FeedbackRequest
	tokens   []string
}

func newAPI(t *testing.T) *api {
	a := new(api)
	mux := http.NewServeMux()
	handle(a, mux, "contexts", a.context)
	handle(a, mux, "executions", func(r *events.Report) any {
		i := slices.IndexFunc(a.reports, func(old events.Report) bool { return old.RunID == r.RunID })
		if i < 0 {
			a.reports = append(a.reports, *r)
			i = len(a.reports) - 1
		}
		return events.StoredReply{Handle: events.Handle(fmt.Sprintf("%d-00000000", i+1))}
	})
	handle(a, mux, "feedback", func(r *events.FeedbackRequest) any {
		a.feedback = append(a.feedback, *r)
		return events.StoredReply{Handle: "9-00000000"}
	})
	a.Server = httptest.NewServer(mux)
	t.Cleanup(a.Close)
	return a
}

func handle[T any](a *api, mux *http.ServeMux, path string, f func(*T) any) {
	mux.HandleFunc("POST /api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		body := new(T)
		status := a.status
		if json.NewDecoder(r.Body).Decode(body) != nil {
			status = http.StatusBadRequest
		}
		if status != 0 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(status)
			return
		}
		a.tokens = append(a.tokens, r.Header.Get("Authorization"))
		_ = json.NewEncoder(w).Encode(f(body))
	})
}

// context answers like the service: one message, with the place of each bullet in it.
func (a *api) context(r *events.ContextRequest) any {
	a.contexts = append(a.contexts, *r)
	reply := events.ContextReply{ID: events.ID(fmt.Sprint("context-", len(a.contexts)))}
	if len(a.bullets) == 0 {
		return reply
	}
	text := "<playbook>\nThe user did not write this part.\n\n"
	for i, b := range a.bullets {
		line := fmt.Sprintf("- [misc-%05d] %s\n", i+1, b)
		reply.Lines = append(reply.Lines, events.AdviceLine{Start: len(text), End: len(text) + len(line), Bullet: bulletID(i)})
		text += line
	}
	reply.Messages = []chat.Message{{Speaker: chat.User, Text: text + "</playbook>"}}
	return reply
}

// user is a user with a connected repository.
type user struct {
	t     *testing.T
	api   *api
	repo  string
	hooks map[string]*Hook
	begun int // hand-overs
}

// newUser returns a user whose repository is connected with all agents.
func newUser(t *testing.T, a *api) *user {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	u := &user{t: t, api: a, repo: filepath.Join(dir, "shop"), hooks: map[string]*Hook{}}
	git := filepath.Join(u.repo, ".git")
	u.write(filepath.Join(git, KeyFile), "secret\n")
	u.write(filepath.Join(u.repo, "src", "a.go"), "package a\n")
	settings := &Settings{Repositories: []*Repository{{GitDir: git, Key: "secret", Book: "shop", URL: a.URL, Token: "dbr_token", Agents: Names, Transcripts: true}}}
	file := filepath.Join(dir, "agents.json")
	if err := WriteJSON(file, settings); err != nil {
		t.Fatal(err)
	}
	for _, name := range Names {
		u.hooks[name] = &Hook{Agent: name, Settings: file, State: filepath.Join(dir, "state[1]"), StartHandOver: func() error { u.begun++; return nil }}
	}
	return u
}

func (u *user) write(name, text string) {
	u.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
}

// hook calls the hook of an agent with an event, in which REPO stands for the repository, and returns the output.
func (u *user) hook(agent, event string) string {
	u.t.Helper()
	return string(u.hooks[agent].Handle(u.t.Context(), strings.NewReader(strings.ReplaceAll(event, "REPO", u.repo))))
}

// handOver hands over what waits, and returns the error.
func (u *user) handOver() error {
	h := u.hooks[ClaudeCode]
	_, err := HandOver(u.t.Context(), h.Settings, h.State)
	return err
}

// log returns the log of the hooks.
func (u *user) log() string {
	data, _ := os.ReadFile(filepath.Join(u.hooks[ClaudeCode].State, "hook.log"))
	return string(data)
}

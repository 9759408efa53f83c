package integration

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A new user has an empty home directory, no server and one of these models.
const (
	proseModel   = "prose"   // answers plain text and no JSON
	refusedModel = "refused" // answers each call with 401
	absentModel  = "absent"  // nothing listens at its address
)

// A step is a command of a new user with a model. It must end within newUserLimit with the promised result, or with a line that names the
// next step.
type newUserStep struct {
	args string            // URL stands for the base URL of the model
	want map[string]string // by model: a regular expression for the output
}

func each(want string) map[string]string {
	return map[string]string{proseModel: want, refusedModel: want, absentModel: want}
}

func failing(prose string) map[string]string {
	return map[string]string{proseModel: prose, refusedModel: `401.*key`, absentModel: `refused`}
}

// noJSON is the end of a command whose Reflector has a model that answers only prose.
const noJSON = `no JSON object.*choose a model that answers in JSON with --reflector-model`

// whileUp are the steps while 'debrief up' runs with the model, alone those without it.
var (
	whileUp = []newUserStep{
		{"status", each(`generator`)},
		{"submit --wait 'What is 6 x 7?'", failing(`The answer is 42\.`)},
		{"context show --query 'What is 6 x 7?'", each(`What is 6 x 7\?`)},
		{"status", failing(`generator`)},
	}
	alone = []newUserStep{
		{"doctor --model m --base-url URL", failing(`model`)},
		{"eval tasks.jsonl --empty --model m --base-url URL", failing(`2 +2 +100\.0 %`)},
		{"train tasks.jsonl --model m --base-url URL", failing(noJSON)},
		{"demo --model m --base-url URL --epochs 1 --train 8 --held-out 4", failing(noJSON)},
		{"learn runs.jsonl --model m --base-url URL", failing(noJSON)},
		{"learn runs.jsonl", each(`stored runs compared`)},
		{"playbook show", each(`(?i)playbook`)},
		{"status", each(`generator`)},
	}
)

// newUserLimit is for commands that wait for a model or a server for ever. Some take 8 s alone, because a role gives a model that refuses
// connections some seconds, and much longer beside the other tests.
const newUserLimit = time.Minute

const newUserTasks = `{"question": "What is 6 x 7?", "target": "The answer is 42."}
{"question": "What is 42 x 1?", "target": "The answer is 42."}
`

const newUserRuns = `{"question": "Where is the atlas?", "outcome": "failure", "steps": [{"tool_calls": [{"tool": "find", "arguments": "{\"title\": \"atlas\"}", "output": "Error: unknown field title", "outcome": "failure"}]}]}
{"question": "Where is the globe?", "outcome": "success", "steps": [{"tool_calls": [{"tool": "find", "arguments": "{\"item\": \"globe\"}", "output": "shelf 7"}]}]}
`

// newUserModel starts a model of the kind and returns its base URL.
func newUserModel(t *testing.T, kind string) string {
	t.Helper()
	h := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case kind == refusedModel:
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error": {"message": "Incorrect API key provided.", "type": "invalid_request_error", "code": "invalid_api_key"}}`)
		case strings.HasSuffix(r.URL.Path, "/models"):
			fmt.Fprint(w, `{"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "test"}]}`)
		default:
			fmt.Fprint(w, `{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
				"message": {"role": "assistant", "content": "The answer is 42."}}], "usage": {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}}`)
		}
	}
	s := httptest.NewServer(http.HandlerFunc(h))
	if kind == absentModel {
		s.Close()
		return s.URL + "/v1"
	}
	t.Cleanup(s.Close)
	return s.URL + "/v1"
}

// TestNewUser takes the steps of a new user with each model, in an empty home directory. With -v it prints the transcript.
func TestNewUser(t *testing.T) {
	t.Parallel()
	bin := program(t, "debrief")
	for _, kind := range []string{proseModel, refusedModel, absentModel} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			u := &newUser{t: t, bin: bin, home: t.TempDir(), kind: kind, url: newUserModel(t, kind)}
			for name, text := range map[string]string{"tasks.jsonl": newUserTasks, "runs.jsonl": newUserRuns} {
				if err := os.WriteFile(filepath.Join(u.home, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			u.take(newUserStep{"--help", each(`demo`)})
			u.take(newUserStep{"demo --epochs 1 --train 8 --held-out 4", each(`epoch 1`)})
			up := u.up()
			for _, step := range whileUp {
				u.take(step)
			}
			began := time.Now()
			if _, err := up.stop(); err != nil || time.Since(began) > newUserLimit {
				t.Errorf("stop debrief up: %v after %s, want at most %s", err, time.Since(began), newUserLimit)
			}
			u.server = ""
			for _, step := range alone {
				u.take(step)
			}
		})
	}
}

// newUser runs commands in an empty home directory, which is also the working directory.
type newUser struct {
	t              *testing.T
	bin, home      string
	kind, url      string // of the model
	server, agents string // addresses of 'debrief up', empty while it does not run
}

func (u *newUser) command(ctx context.Context, args string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", "exec "+u.bin+" "+strings.Replace(args, "URL", u.url, 1))
	cmd.Env = []string{"HOME=" + u.home, "PATH=" + os.Getenv("PATH")}
	if u.server != "" {
		cmd.Env = append(cmd.Env, "DEBRIEF_NATS=nats://"+u.server)
	}
	cmd.Dir = u.home
	return cmd
}

// up starts 'debrief up' and waits for its first line.
func (u *newUser) up() *process {
	u.t.Helper()
	listen, agents := freeAddress(u.t), freeAddress(u.t)
	p := start(u.t, "up", func() *exec.Cmd {
		return u.command(context.Background(), "up --listen "+listen+" --http "+agents+" --model m --base-url URL")
	})
	u.t.Logf("$ debrief up --model m --base-url %s\n%s", u.url, p.line())
	u.server, u.agents = listen, agents
	return p
}

// take runs a step and interrupts it after twice the limit.
func (u *newUser) take(step newUserStep) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), 2*newUserLimit)
	defer cancel()
	cmd := u.command(ctx, step.args)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = newUserLimit
	began := time.Now()
	out, err := cmd.CombinedOutput()
	took := time.Since(began)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		u.t.Fatalf("debrief %s: %v", step.args, err)
	}
	u.t.Logf("$ debrief %s\n%s(exit code %d, %.1f s)", step.args, out, cmd.ProcessState.ExitCode(), took.Seconds())
	if took > newUserLimit {
		u.t.Errorf("debrief %s: took %s, want at most %s", step.args, took, newUserLimit)
	}
	if want := step.want[u.kind]; !regexp.MustCompile("(?s)" + want).Match(out) {
		u.t.Errorf("debrief %s: got %q, want a match of %q", step.args, out, want)
	}
}

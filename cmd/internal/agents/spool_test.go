package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"debrief/events"
)

// claudeTurn returns the lines of a transcript for a message and a command with its end.
func claudeTurn(id, prompt, command string, failed bool) string {
	return fmt.Sprintf(`{"type":"user","sessionId":"s","uuid":"u%[1]s","message":{"role":"user","content":%[2]q}}
{"type":"assistant","sessionId":"s","uuid":"a%[1]s","message":{"id":"m%[1]s","role":"assistant","model":"opus","content":[{"type":"tool_use","id":"t%[1]s","name":"Bash","input":{"command":%[3]q}}]}}
{"type":"user","sessionId":"s","uuid":"r%[1]s","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%[1]s","is_error":%[4]t,"content":"output"}]}}
{"type":"assistant","sessionId":"s","uuid":"e%[1]s","message":{"id":"n%[1]s","role":"assistant","model":"opus","content":[{"type":"text","text":"Answer %[1]s."}]}}
`, id, prompt, command, failed)
}

// turn lets Claude Code work on a message. Without a stop the user interrupts it.
func (u *user) turn(transcript, id, prompt, command string, failed, stops bool) {
	u.t.Helper()
	fields := fmt.Sprintf(`"session_id":"s","transcript_path":%q,"cwd":"REPO"`, transcript)
	u.hook(ClaudeCode, fmt.Sprintf(`{"hook_event_name":"UserPromptSubmit","prompt":%q,%s}`, prompt, fields))
	f, err := os.OpenFile(transcript, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		u.t.Fatal(err)
	}
	if _, err := f.WriteString(claudeTurn(id, prompt, command, failed)); err != nil {
		u.t.Fatal(err)
	}
	_ = f.Close()
	if stops {
		u.hook(ClaudeCode, `{"hook_event_name":"Stop","last_assistant_message":"Answer `+id+`.",`+fields+`}`)
	}
}

// TestRunsOfASession: each message is a run with its own steps and outcome, counted once; the words of the user, and a revert, are verdicts
// on the run before.
func TestRunsOfASession(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.bullets = []string{"Prices are in cents."}
	u := newUser(t, a)
	transcript := filepath.Join(t.TempDir(), "s.jsonl")
	end := func(event, more string) string {
		return u.hook(ClaudeCode, fmt.Sprintf(`{"hook_event_name":%q,"session_id":"s","transcript_path":%q,"cwd":"REPO"%s}`, event, transcript, more))
	}
	a.status = http.StatusServiceUnavailable // the first runs wait
	u.turn(transcript, "1", "Fix the prices", "go test ./...", false, true)
	if err := u.handOver(); err == nil || len(a.reports) > 0 {
		t.Errorf("without a server: got %v", err)
	}
	u.turn(transcript, "2", "Rename the shop", "npm test", true, true)
	end("Stop", `,"stop_hook_active":true`) // a second stop of the same turn
	a.status = 0
	u.turn(transcript, "3", "Undo that", "git revert --no-edit HEAD", false, false) // interrupted
	u.turn(transcript, "4", "Write the docs", "ls", false, true)
	if out := u.hook(ClaudeCode, `{"hook_event_name":"UserPromptSubmit","prompt":"/debrief good, thank you","session_id":"s","cwd":"REPO"}`); !strings.Contains(out, `"decision":"block"`) {
		t.Errorf("a rating: got %q, want the message kept from the model", out)
	}
	end("SessionEnd", `,"reason":"other"`)
	for range 2 { // also if it is tried again
		if err := u.handOver(); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, r := range a.reports {
		var calls []string
		for _, s := range r.Steps {
			for _, c := range s.Calls {
				calls = append(calls, c.Arguments)
			}
		}
		got = append(got, fmt.Sprintf("%d %s %s %s%t by %q, context %t, book %s: %v", r.Turn, r.Question, r.Answer, r.Outcome.Label, r.Outcome.Inferred, r.Outcome.By, r.ContextID != "", r.Book, calls))
	}
	want := []string{
		`1 Fix the prices Answer 1. successfalse by "tests", context false, book shop: [{"command":"go test ./..."}]`,
		`2 Rename the shop Answer 2. failurefalse by "tests", context false, book shop: [{"command":"npm test"}]`,
		`3 Undo that Answer 3. unknowntrue by "", context true, book shop: [{"command":"git revert --no-edit HEAD"}]`,
		`4 Write the docs Answer 4. unknowntrue by "", context true, book shop: [{"command":"ls"}]`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("runs: got\n%s\nwant\n%s\nlog %s", strings.Join(got, "\n"), strings.Join(want, "\n"), u.log())
	}
	if len(a.feedback) != 2 {
		t.Fatalf("got the verdicts %+v, want a revert of run 2 and a rating of run 4", a.feedback)
	}
	revert, rating := a.feedback[0], a.feedback[1]
	if revert.Execution != "2-00000000" || revert.Outcome.Label != events.Failure || !revert.Outcome.Inferred {
		t.Errorf("the revert: got %+v, want an inferred failure of run 2", revert)
	}
	if rating.Execution != "4-00000000" || rating.Outcome.Label != events.Success || rating.Outcome.Inferred || rating.Outcome.Feedback != "thank you" {
		t.Errorf("the rating: got %+v, want a success of run 4 with the words", rating)
	}
}

// TestConsentCountsAtTheHandOver: runs that wait are dropped if the user has taken the consent back, and without transcripts
// nothing is recorded.
func TestConsentCountsAtTheHandOver(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	u := newUser(t, a)
	u.turn(filepath.Join(t.TempDir(), "s.jsonl"), "1", "Fix the prices", "ls", false, true)
	spool := state(u.hooks[ClaudeCode].State)
	files := spool.waiting()
	if len(files) != 1 || u.begun != 1 {
		t.Fatalf("got %d entries and %d hand-overs, want one", len(files), u.begun)
	}
	if text, _ := os.ReadFile(files[0]); strings.Contains(string(text), "dbr_token") || strings.Contains(string(text), "Bash") {
		t.Errorf("the spool has the token or the transcript: %s", text)
	}
	settings, _ := ReadSettings(u.hooks[ClaudeCode].Settings)
	settings.Repositories[0].Transcripts = false
	if err := WriteJSON(u.hooks[ClaudeCode].Settings, settings); err != nil {
		t.Fatal(err)
	}
	if err := u.handOver(); err != nil || len(a.reports) > 0 {
		t.Errorf("after the consent ended: got %d runs, %v", len(a.reports), err)
	}
	u.turn(filepath.Join(t.TempDir(), "s.jsonl"), "2", "Fix the taxes", "ls", false, true)
	if files := spool.waiting(); len(files) > 0 {
		t.Errorf("without consent: %v waits", files)
	}
}

// TestRunsWaitForACorrectedToken: a refused token and a failure in the server keep the runs; a request that the server calls invalid is dropped.
func TestRunsWaitForACorrectedToken(t *testing.T) {
	t.Parallel()
	for status, isKept := range map[int]bool{
		http.StatusUnauthorized: true, http.StatusForbidden: true, http.StatusInternalServerError: true, http.StatusServiceUnavailable: true,
		http.StatusBadRequest: false, http.StatusNotFound: false,
	} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			u := newUser(t, a)
			u.turn(filepath.Join(t.TempDir(), "s.jsonl"), "1", "Fix the prices", "ls", false, true)
			a.status = status
			if err := u.handOver(); (err != nil) != isKept {
				t.Errorf("got %v, want an error: %t", err, isKept)
			}
			a.status = 0
			if err := u.handOver(); err != nil || (len(a.reports) == 1) != isKept {
				t.Errorf("then got %d runs, %v", len(a.reports), err)
			}
		})
	}
}

// TestRunsWaitForReadableSettings: settings that cannot be read say nothing about the consent, so the runs stay.
func TestRunsWaitForReadableSettings(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	u := newUser(t, a)
	u.turn(filepath.Join(t.TempDir(), "s.jsonl"), "1", "Fix the prices", "ls", false, true)
	file := u.hooks[ClaudeCode].Settings
	settings, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{[]byte("{"), settings} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		isReadable := len(text) > 1
		if err := u.handOver(); (err == nil) != isReadable {
			t.Errorf("settings %.20q: got the error %v", text, err)
		}
	}
	if len(a.reports) != 1 {
		t.Errorf("got %d runs, want the one that waited", len(a.reports))
	}
}

// TestStopsOfOneTurn: an agent that stops and goes on, because of another hook, has one run. Its last state counts: as the report if that
// still waits, else as feedback.
func TestStopsOfOneTurn(t *testing.T) {
	t.Parallel()
	for _, waits := range []bool{true, false} {
		t.Run(fmt.Sprintf("the first report waits: %t", waits), func(t *testing.T) {
			t.Parallel()
			a := newAPI(t)
			u := newUser(t, a)
			transcript := filepath.Join(t.TempDir(), "s.jsonl")
			u.turn(transcript, "1", "Fix the prices", "go test ./...", true, true)
			if !waits {
				if err := u.handOver(); err != nil || len(a.reports) != 1 || a.reports[0].Outcome.Label != events.Failure {
					t.Fatalf("got %v and the reports %+v", err, a.reports)
				}
			}
			_, more, _ := strings.Cut(claudeTurn("2", "x", "go test ./...", false), "\n") // without a message of the user
			f, err := os.OpenFile(transcript, os.O_APPEND|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = f.WriteString(more)
				_ = f.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			stop := fmt.Sprintf(`{"hook_event_name":"Stop","stop_hook_active":true,"last_assistant_message":"Fixed.","session_id":"s","transcript_path":%q,"cwd":"REPO"}`, transcript)
			for range 2 {
				u.hook(ClaudeCode, stop)
				if err := u.handOver(); err != nil {
					t.Fatal(err)
				}
			}
			u.hook(ClaudeCode, strings.Replace(stop, "Stop", "SessionEnd", 1))
			if err := u.handOver(); err != nil {
				t.Fatal(err)
			}
			if len(a.reports) != 1 {
				t.Fatalf("got %d runs, want one: %+v", len(a.reports), a.reports)
			}
			last := a.reports[0].Outcome
			if waits && (a.reports[0].Answer != "Fixed." || len(a.reports[0].Steps) < 2) {
				t.Errorf("got the report %+v, want the last state", a.reports[0])
			}
			if !waits && len(a.feedback) == 1 {
				last = a.feedback[0].Outcome
			}
			if last.Label != events.Success || len(a.feedback) > 1 || waits && len(a.feedback) > 0 {
				t.Errorf("got the outcome %+v and feedback %+v, want the success of the last tests, once", last, a.feedback)
			}
			if u.log() != "" {
				t.Errorf("got the log %s", u.log())
			}
		})
	}
}

// TestCutSplitsNoSecret: the server does not recognize a part of a secret, and would store it.
func TestCutSplitsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
	across := func(limit int) string { // the limit cuts the second secret
		return secret + strings.Repeat(" x", (limit-len(secret)-20)/2) + " " + secret + " and more"
	}
	a := newAPI(t)
	u := newUser(t, a)
	const cursor = `"conversation_id":"c","cursor_version":"2.4.1","workspace_roots":["REPO"]`
	u.hook(Cursor, fmt.Sprintf(`{"hook_event_name":"beforeSubmitPrompt","prompt":%q,%s}`, across(maxQuery), cursor))
	u.hook(Cursor, fmt.Sprintf(`{"hook_event_name":"postToolUse","tool_name":"Shell","tool_input":{"command":%q},"tool_output":%q,%s}`, across(maxCall-15), across(maxCall), cursor))
	u.hook(Cursor, fmt.Sprintf(`{"hook_event_name":"afterAgentResponse","text":%q,%s}`, across(maxQuery), cursor))
	u.hook(Cursor, `{"hook_event_name":"stop",`+cursor+`}`)
	u.turn(filepath.Join(t.TempDir(), "s.jsonl"), "1", across(maxQuery), "go test ./...", false, true)
	if err := u.handOver(); err != nil {
		t.Fatal(err)
	}
	sent, err := json.Marshal([]any{a.contexts, a.reports})
	if err != nil {
		t.Fatal(err)
	}
	if i := strings.Index(string(sent), "ghp_"); i >= 0 {
		t.Errorf("the server got a part of a secret: %s", sent[i:i+30])
	}
	if n := len(a.reports); n != 2 || len(a.reports[n-1].Steps) == 0 || a.reports[n-1].Model == "" {
		t.Errorf("got %d reports, want two, the last one with the turn of the transcript; log %s", n, u.log())
	}
}

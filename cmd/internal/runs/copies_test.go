package runs

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"debrief/events"
)

// copiedSession writes a session as a format records it. Each turn is a question or, after "=", an answer. With a call, it is "=call:tool".
type copiedSession struct {
	header, user, answer, call string // with SESSION, NN for the number of the message, and TEXT
}

// copiedFormats are the formats whose sessions can be resumed in another file. Codex writes new times, and the header of the old session.
var copiedFormats = map[string]copiedSession{
	"Claude Code, streams": {
		user:   `{"type":"user","uuid":"uNN","sessionId":"SESSION","message":{"role":"user","content":"TEXT"}}`,
		answer: `{"type":"assistant","uuid":"uNN","sessionId":"SESSION","message":{"id":"mNN","role":"assistant","content":[{"type":"text","text":"TEXT"}]}}`,
		call:   `{"type":"assistant","uuid":"uNN","sessionId":"SESSION","message":{"id":"mNN","role":"assistant","content":[{"type":"tool_use","id":"tNN","name":"TEXT","input":{}}]}}`,
	},
	"Claude Code": {
		user:   `{"type":"user","uuid":"uNN of SESSION","timestamp":"2031-05-17T10:00:NNZ","sessionId":"SESSION","message":{"role":"user","content":"TEXT"}}`,
		answer: `{"type":"assistant","uuid":"uNN of SESSION","timestamp":"2031-05-17T10:00:NNZ","sessionId":"SESSION","message":{"id":"mNN","role":"assistant","content":[{"type":"text","text":"TEXT"}]}}`,
		call:   `{"type":"assistant","uuid":"uNN of SESSION","timestamp":"2031-05-17T10:00:NNZ","sessionId":"SESSION","message":{"id":"mNN","role":"assistant","content":[{"type":"tool_use","id":"tNN","name":"TEXT","input":{}}]}}`,
	},
	"Codex": {
		header: `{"timestamp":"2031-05-17T10:00:00Z","type":"session_meta","payload":{"id":"SESSION"}}` + "\n" + `{"timestamp":"2031-05-17T10:00:00Z","type":"session_meta","payload":{"id":"older"}}`,
		user:   `{"timestamp":"time of SESSION","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"TEXT"}]}}`,
		answer: `{"timestamp":"time of SESSION","type":"response_item","payload":{"type":"message","role":"assistant","id":"mNN","content":[{"type":"output_text","text":"TEXT"}]}}`,
		call: `{"timestamp":"time of SESSION","type":"response_item","payload":{"type":"function_call","call_id":"cNN","name":"TEXT","arguments":"{}"}}` + "\n" +
			`{"timestamp":"time of SESSION","type":"response_item","payload":{"type":"function_call_output","call_id":"cNN","output":"r"}}`,
	},
	"OpenHands": {
		user:   `{"id":NN,"timestamp":"2031-05-17T10:00:NN","source":"user","action":"message","args":{"content":"TEXT"}}`,
		answer: `{"id":NN,"timestamp":"2031-05-17T10:00:NN","source":"agent","action":"message","args":{"content":"TEXT"}}`,
		call:   `{"id":NN,"timestamp":"2031-05-17T10:00:NN","source":"agent","action":"run","args":{"command":"ls"},"tool_call_metadata":{"function_name":"TEXT","tool_call_id":"tNN"}}`,
	},
	"OpenHands SDK": {
		user:   `{"id":"eNN","timestamp":"2031-05-17T10:00:NN","source":"user","kind":"MessageEvent","llm_message":{"role":"user","content":[{"type":"text","text":"TEXT"}]}}`,
		answer: `{"id":"eNN","timestamp":"2031-05-17T10:00:NN","source":"agent","kind":"ActionEvent","tool_name":"finish","action":{"message":"TEXT"}}`,
		call:   `{"id":"eNN","timestamp":"2031-05-17T10:00:NN","source":"agent","kind":"ActionEvent","tool_name":"TEXT","tool_call_id":"tNN","action":{}}`,
	},
}

func (c copiedSession) file(session string, turns ...string) string {
	var b strings.Builder
	line := func(format string, n int, text string) {
		if format != "" {
			b.WriteString(strings.NewReplacer("SESSION", session, "NN", fmt.Sprint(n), "TEXT", text).Replace(format) + "\n")
		}
	}
	line(c.header, 0, "")
	for i, turn := range turns {
		number := i + 10                                 // two digits
		if at := strings.IndexByte(turn, '@'); at >= 0 { // another message than that of the other file
			number, turn = number+20, turn[:at]
		}
		if tool, ok := strings.CutPrefix(turn, "=call:"); ok {
			line(c.call, number, tool)
		} else if text, ok := strings.CutPrefix(turn, "="); ok {
			line(c.answer, number, text)
		} else {
			line(c.user, number, turn)
		}
	}
	return b.String()
}

// describe returns the question, the texts and the tools of a run.
func describe(e *events.Execution) string {
	words := []string{e.Question}
	for _, s := range e.Steps {
		if s.Text != "" {
			words = append(words, s.Text)
		}
		for _, call := range s.Calls {
			words = append(words, call.Tool)
		}
	}
	return strings.Join(words, " ")
}

// TestResumedSessionsCountOnce checks that each step of a session counts once that is in several files, in any order of the files.
func TestResumedSessionsCountOnce(t *testing.T) {
	t.Parallel()
	first := []string{"q1", "=call:find", "=a1"}
	resumed := append(first[:3:3], "q2", "=call:look", "=a2")
	forked := append(first[:3:3], "q3@", "=a3@")
	for _, tt := range []struct {
		name  string
		files [][]string
		want  []string
	}{
		{"resumed", [][]string{first, resumed}, []string{"q1 find a1", "q2 look a2"}},
		{"resumed, the longer one first", [][]string{resumed, first}, []string{"q1 find a1 q2 look a2"}},
		{"resumed twice", [][]string{first, resumed, append(resumed[:6:6], "q4", "=a4")}, []string{"q1 find a1", "q2 look a2", "q4 a4"}},
		{"forked", [][]string{resumed, forked}, []string{"q1 find a1 q2 look a2", "q3 a3"}},
		{"a snapshot before the answer", [][]string{first[:2], first}, []string{"q1 find", "q1 a1"}},
		{"no answer yet", [][]string{first, append(first[:3:3], "q2")}, []string{"q1 find a1"}},
		{"another attempt", [][]string{first, {"q1@", "=call:find@", "=a1@"}}, []string{"q1 find a1", "q1 find a1"}},
	} {
		for format, session := range copiedFormats {
			t.Run(tt.name+"/"+format, func(t *testing.T) {
				t.Parallel()
				r := &Reader{Book: "book"}
				var got []string
				for i, turns := range tt.files {
					_, err := r.Read(t.Context(), "f", strings.NewReader(session.file(fmt.Sprint("s", i), turns...)), func(e *events.Execution) error {
						got = append(got, describe(e))
						return nil
					})
					if err != nil {
						t.Errorf("file %d: %v", i, err)
					}
				}
				if !reflect.DeepEqual(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		}
	}
}

// TestResumedSessionOfStoredRun checks that a session that another command resumes is read from its new question on.
func TestResumedSessionOfStoredRun(t *testing.T) {
	t.Parallel()
	for format, session := range copiedFormats {
		stored := map[events.ID]bool{}
		for i, turns := range [][]string{{"q1", "=a1"}, {"q1", "=a1", "q2", "=a2"}, {"q1", "=a1", "q2", "=a2"}} {
			r := &Reader{Book: "book", Known: func(id events.ID) bool { return stored[id] }}
			var got []events.ID
			_, err := r.Read(t.Context(), "f", strings.NewReader(session.file(fmt.Sprint("s", i), turns...)), func(e *events.Execution) error {
				got = append(got, e.ID)
				if text := describe(e); i == 1 && text != "q2 a2" {
					t.Errorf("%s: got the run %q", format, text)
				}
				return nil
			})
			if err != nil || len(got) != 1 || stored[got[0]] != (i == 2) {
				t.Errorf("%s: file %d: got the runs %q, error %v", format, i, got, err)
			}
			for _, id := range got {
				stored[id] = true
			}
		}
	}
}

// TestResumedGeminiSession checks a copied session of Gemini CLI, which is one object.
func TestResumedGeminiSession(t *testing.T) {
	t.Parallel()
	file := func(session, more string) string {
		return `{"sessionId":"` + session + `","messages":[{"id":"1","type":"user","content":"q1"},{"id":"2","type":"gemini","content":"a1"}` + more + `]}`
	}
	r := &Reader{Book: "book"}
	var got []string
	for _, text := range []string{file("s1", ""), file("s2", `,{"id":"3","type":"user","content":"q2"},{"id":"4","type":"gemini","content":"a2"}`)} {
		if _, err := r.Read(t.Context(), "f", strings.NewReader(text), func(e *events.Execution) error {
			got = append(got, describe(e))
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
	if want := []string{"q1 a1", "q2 a2"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

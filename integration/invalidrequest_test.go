package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// requests are valid bodies of the routes, with all fields.
var requests = []struct {
	path, verb string
	body       fields
}{
	{"/api/v1/contexts", events.VerbContext, fields{
		"book": "b", "session": "s", "query": "q", "context": "c", "system": "y", "steps": []any{}, "playbook": 0, "min_version": 0,
		"limit": 9000, "window": "adaptive", "task": "coding", "explain": true, "dry_run": true,
	}},
	{"/api/v1/executions", events.VerbReport, fields{
		"book": "b", "context_id": "", "run_id": "t", "session": "s", "question": "q", "context": "c", "steps": []any{}, "reasoning": "r", "answer": "a",
		"cited": []any{}, "outcome": fields{"label": "failure", "score": 0}, "target": "x", "purpose": "learn", "model": "m", "usage": fields{},
		"started": "2026-11-22T00:00:00Z", "duration_ns": 1,
	}},
	{"/api/v1/feedback", events.VerbFeedback, fields{
		"book": "b", "id": string(events.NewID()), "execution": "1-ab12cd34", "outcome": fields{"label": "failure"}, "target": "x",
	}},
}

// hostile are values for any field, in JSON.
var hostile = []string{
	`null`, `true`, `0`, `-1`, `1e308`, `1e-400`, `18446744073709551615`, `18446744073709551616`, `9223372036854775807`, `-9223372036854775808`, `0.5`,
	`""`, `" "`, `"\u0000"`, `"\ud800"`, "\"\xff\"", `"` + strings.Repeat("x", 300) + `"`, `"` + strings.Repeat("long ", 20_000) + `"`, `"."`, `"*"`, `">"`, `"a.b"`,
	`"../x"`, `"$JS.API"`, `"_INBOX.x"`, `"0-00000000"`, `"0-ab12cd34"`, `"00-ab12cd34"`, `"1-00000000"`, `"9223372036854775808-ab12cd34"`,
	`"18446744073709551615-ab12cd34"`, `"-1-ab12cd34"`, `"1-ABCDEFGH"`, `"AAAAAAAAAAAAAAAAAAAAAA"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59Z"`,
	`"0001-01-01T00:00:00+23:59"`, `[]`, `[[]]`, `[{}]`, `[null]`, `[""]`, `{}`, `{"label":"x"}`, `{"score":2}`, `{"label":"success","score":-1}`,
	`[{"tool_calls":[{}]}]`, `[{"tool_calls":[{"duration_ns":-1}],"at":"0001-01-01T00:00:00Z"}]`, `[{"record":{"calls":[{},{},{}],"progress":"\u0000"}}]`,
	`{"calls":-1,"input_tokens":-9223372036854775808,"cost_usd":-1e300}`,
}

// TestInvalidRequestsGetClientErrors puts hostile values into each field of each route, alone and in pairs. Over HTTP and
// NATS the code must be 4xx, never 5xx, and the text must name the field.
func TestInvalidRequestsGetClientErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("sends some thousand requests")
	}
	t.Parallel()
	p := startPipeline(t)
	codes := map[int]int{}
	send := func(path, verb, body string, overNATS bool) {
		code, text := 0, ""
		if overNATS {
			m, err := p.conn.Request(events.ServiceSubject(verb, "b", ""), []byte(body), 20*time.Second)
			if err != nil {
				t.Fatalf("%s %.200s: %v", verb, body, err)
			}
			code, text = http.StatusOK, m.Header.Get("Nats-Service-Error")
			if c := m.Header.Get("Nats-Service-Error-Code"); c != "" {
				code, _ = strconv.Atoi(c)
			}
		} else {
			resp, err := http.Post(p.http+path, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			reply, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			code, text = resp.StatusCode, string(reply)
		}
		if codes[code]++; code >= 500 || code == 0 {
			t.Errorf("%s %.200s: got %d %.200s", path, body, code, text)
		}
	}
	rng := rand.New(rand.NewPCG(12, 1))
	for _, r := range requests {
		names := slices.Sorted(maps.Keys(r.body))
		for _, name := range names {
			for i, value := range hostile {
				send(r.path, r.verb, with(t, r.body, map[string]string{name: value}), i%8 == rng.IntN(8))
			}
		}
		for range 300 {
			a, b := names[rng.IntN(len(names))], names[rng.IntN(len(names))]
			send(r.path, r.verb, with(t, r.body, map[string]string{a: hostile[rng.IntN(len(hostile))], b: hostile[rng.IntN(len(hostile))]}), rng.IntN(4) == 0)
		}
	}
	t.Logf("answers by code: %v", codes)
	if codes[http.StatusOK] == 0 || codes[http.StatusBadRequest] == 0 || codes[http.StatusNotFound] == 0 {
		t.Errorf("got %v, want some of 200, 400 and 404", codes)
	}
}

// with returns a body as JSON, with some values replaced.
func with(t *testing.T, body fields, values map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(body)) {
		value, ok := values[name]
		if !ok {
			data, err := json.Marshal(body[name])
			if err != nil {
				t.Fatal(err)
			}
			value = string(data)
		}
		fmt.Fprintf(&out, ",%q:%s", name, value)
	}
	return "{" + out.String()[1:] + "}"
}

// TestFeedbackOnInvalidHandle checks that the error names the field.
func TestFeedbackOnInvalidHandle(t *testing.T) {
	t.Parallel()
	p := startPipeline(t)
	for handle, want := range map[string]int{
		"0-00000000": 400, "0-ab12cd34": 400, "": 400, "18446744073709551616-ab12cd34": 400,
		"18446744073709551615-ab12cd34": 404, "9223372036854775807-ab12cd34": 404, "1-00000000": 404,
	} {
		body := fmt.Sprintf(`{"book":"b","execution":%q,"outcome":{"label":"failure"}}`, handle)
		resp, err := http.Post(p.http+"/api/v1/feedback", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		reply, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != want || !strings.Contains(string(reply), `"detail":"execution`) {
			t.Errorf("%q: got %d %s, %v, want %d and the field", handle, resp.StatusCode, reply, err, want)
		}
		m, err := p.conn.Request(events.ServiceSubject(events.VerbFeedback, "b", ""), []byte(body), 20*time.Second)
		if err != nil || m.Header.Get("Nats-Service-Error-Code") != strconv.Itoa(want) || !strings.HasPrefix(m.Header.Get("Nats-Service-Error"), "execution") {
			t.Errorf("%q over NATS: got %v, %v, want %d", handle, m, err, want)
		}
	}
}

package runs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// contents is what a reader takes from a file: everything that damage could lose.
type contents struct{ runs, steps, calls, text int }

func contentsOf(t *testing.T, name string, r io.Reader) (contents, Report, error) {
	t.Helper()
	var c contents
	report, err := Read(t.Context(), "book", name, r, func(e *events.Execution) error {
		c.runs++
		c.text += len(e.Question) + len(e.Answer)
		for _, s := range e.Steps {
			c.steps++
			c.text += len(s.Text)
			for _, call := range s.Calls {
				c.calls++
				c.text += len(call.Arguments) + len(call.Output)
			}
		}
		return e.Validate()
	})
	if report.Runs != c.runs {
		t.Errorf("%s: got %d runs, reported %d", name, c.runs, report.Runs)
	}
	return c, report, err
}

// harmless lists changes of a file that lose nothing.
var harmless = map[string]func(string) string{
	"byte order mark": func(s string) string { return "\ufeff" + s },
	"UTF-16 LE":       func(s string) string { return inUTF16(s, binary.LittleEndian, true) },
	"UTF-16 BE":       func(s string) string { return inUTF16(s, binary.BigEndian, true) },
	"gzip":            gzipped,
	"zstd":            zstded,
	"CRLF":            func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
	"space around":    func(s string) string { return "\n \n" + s + "\n\n" },
}

// damages lists changes of a file that may lose something, which must be reported.
var damages = map[string]func(string) string{
	"cut in the middle":    func(s string) string { return s[:len(s)/2] },
	"cut near the end":     func(s string) string { return s[:len(s)-min(20, len(s)/2)] },
	"cut at the beginning": func(s string) string { return s[len(s)/3:] },
	"cut gzip":             func(s string) string { z := gzipped(s); return z[:len(z)*2/3] },
	"cut zstd":             func(s string) string { z := zstded(s); return z[:len(z)*2/3] },
	"zero bytes":           func(s string) string { return s[:len(s)/2] + "\x00\x00\x00" + s[len(s)/2+3:] },
	"a missing quote":      func(s string) string { i := len(s)/3 + strings.IndexByte(s[len(s)/3:], '"'); return s[:i] + s[i+1:] },
	"a missing brace":      func(s string) string { i := len(s)/3 + strings.IndexByte(s[len(s)/3:], '}'); return s[:i] + s[i+1:] },
	"an extra brace": func(s string) string {
		i := len(s)/3 + strings.IndexByte(s[len(s)/3:], '{')
		return s[:i] + "{" + s[i:]
	},
	"Latin-1":            func(s string) string { return strings.ReplaceAll(s, "a", "\xe4") },
	"binary in front":    func(s string) string { return "\x7fELF\x01\x02" + s },
	"a broken line":      func(s string) string { return breakLine(s, "{\"broken\": \n") },
	"a line of garbage":  func(s string) string { return breakLine(s, "\x01\x02garbage\n") },
	"prose behind":       func(s string) string { return strings.TrimSpace(s) + "\nThe end.\n" },
	"half a file behind": func(s string) string { return strings.TrimSpace(s) + "\n" + s[:len(s)/2] },
}

// breakLine replaces the line in the middle of a text, or the middle of a text of one line.
func breakLine(s, broken string) string {
	lines := strings.SplitAfter(strings.TrimSpace(s), "\n")
	if len(lines) == 1 {
		return s[:len(s)/2] + broken + s[len(s)/2:]
	}
	lines[len(lines)/2] = broken
	return strings.Join(lines, "")
}

// TestDamagedRecordings changes each recorded file in 22 ways. A harmless change gives the same contents. After damage, a loss is
// reported as an error, a problem, or invalid text.
func TestDamagedRecordings(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	variants, silent := 0, 0
	for name, text := range recordings(t) {
		want, report, err := contentsOf(t, name, strings.NewReader(text))
		if err != nil || want.runs == 0 {
			t.Errorf("%s: got %+v, report %+v, error %v", name, want, report, err)
			continue
		}
		for change, apply := range harmless {
			variants++
			if got, _, err := contentsOf(t, name, strings.NewReader(apply(text))); err != nil || got != want {
				t.Errorf("%s, %s: got %+v, error %v, want %+v", name, change, got, err, want)
			}
		}
		for change, apply := range damages {
			variants++
			got, report, err := contentsOf(t, name, strings.NewReader(apply(text)))
			told := err != nil || report.Skipped > 0 || report.Invalid > 0
			if !told && (got.runs < want.runs || got.calls < want.calls || got.text < want.text*9/10) {
				silent++
				t.Errorf("%s, %s: got %+v without a report, want %+v", name, change, got, want)
			}
		}
		if got, _, err := contentsOf(t, name, io.MultiReader(strings.NewReader(text), strings.NewReader("\n"+text))); err != nil || got.runs < want.runs || got.calls != 2*want.calls {
			t.Errorf("%s, twice: got %+v, error %v, want twice %+v", name, got, err, want)
		}
		variants++
	}
	t.Logf("%d variants, %d losses without a report", variants, silent)
}

// recordings returns the recorded files that have runs, and examples for formats without recorded data.
func recordings(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{"claude.jsonl": claude, "answers.csv": "question,answer,score\nq1,a1,1\nq2,\"a\n2\",0\n"}
	for _, name := range []string{
		"tau2/airline-gpt-5.json", "codex/rollout-2025-09-25T15-12-14-019982b8-3422-79e0-8b3b-05abaf4f3c3e.jsonl", "claude-code/full-session-two.jsonl",
		"gemini/session-2025-10-29T10-36-453aa339.json", "openhands/runtime-trajectory-basic.json", "openhands/evaluation-output-first.jsonl",
		"mini-swe-agent/local.traj.json", "otel/vercel-ai-sdk-spans.json", "otel/otel_genai_client_span_tool_calls.json", "otel/openinference_client_span_tool_calls.json",
		"swe-agent/function-calling-simple.traj",
		"langfuse/claude-agent-2025-12-22.trace.json", "langfuse/google-adk-2025-08-28.trace.json", "langfuse/openai-agents-2025-09-30.trace.json",
	} {
		if raw, err := os.ReadFile(filepath.Join(dataDir(), name)); err == nil {
			files[name] = string(raw)
		} else {
			t.Logf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
		}
	}
	return files
}

// TestLongLines reads a file with a line of 200 MB, in bounded memory.
func TestLongLines(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	const size = 200 << 20
	for name, start := range map[string]string{"an object": `{"question":"`, "a CSV": "question,answer\n\"", "no JSON": "x"} {
		long := io.MultiReader(strings.NewReader(start), io.LimitReader(filler("x"), size), strings.NewReader("\"}\n"+twoAnswers))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		_, report, err := contentsOf(t, "f", long)
		runtime.ReadMemStats(&after)
		if report.Skipped == 0 && err == nil || name == "an object" && (report.Runs != 2 || report.Skipped != 1) {
			t.Errorf("%s: got report %+v, error %v", name, report, err)
		}
		if n := after.HeapSys - before.HeapSys; after.HeapSys > before.HeapSys && n > 200<<20 {
			t.Errorf("%s: the heap grew by %d MB", name, n>>20)
		}
		t.Logf("%s: %s, %d runs, %d skipped, error %v", name, time.Since(began).Round(time.Millisecond), report.Runs, report.Skipped, err)
	}
}

// TestEndlessFilesEnd reads endless files, each after a run. The run is read, and the error says that the rest was not.
func TestEndlessFilesEnd(t *testing.T) {
	t.Parallel()
	const run = `{"question":"q","answer":"a"}`
	for name, text := range map[string][2]string{
		"white space": {run + "\n", " "}, "line breaks": {run, "\n"}, "one line": {run + "\n", "x"}, "lines": {run + "\n", "x\n"}, "one object": {run + "\n{\"question\":\"", "x"},
		"elements": {"[" + run, ",1"}, "a list": {"[" + run + ",[", "1,"}, "rows": {"question,answer\nq,a\n", "\"\",\n"}, "zero bytes": {run + "\n", "\x00"},
	} {
		f := fileReader{Reader: &Reader{Book: "book"}, base: "x", limit: 8 << 10, fn: func(*events.Execution) error { return nil }}
		err := f.readFile(t.Context(), io.MultiReader(strings.NewReader(text[0]), filler(text[1])))
		if f.report.Runs != 1 || err == nil || !strings.HasSuffix(err.Error(), "the rest was not read") {
			t.Errorf("%s: got %d runs, %d skipped, error %v", name, f.report.Runs, f.report.Skipped, err)
		}
	}
}

// filler is an endless text: one text again and again.
type filler string

func (f filler) Read(p []byte) (int, error) {
	n := len(p) / len(f) * len(f)
	for i := 0; i < n; i += len(f) {
		copy(p[i:], f)
	}
	return n, nil
}

// TestManyRuns reads 100,000 runs of 30 calls. The limits are those of the issue: 60 s and 200 MB.
func TestManyRuns(t *testing.T) {
	if os.Getenv("DEBRIEF_LONG") == "" {
		t.Skip("takes a minute: set DEBRIEF_LONG=1")
	}
	const runs, perRun = 100_000, 30
	var call bytes.Buffer
	for i := range perRun {
		fmt.Fprintf(&call, `{"role":"assistant","content":null,"tool_calls":[{"id":"c%d","type":"function","function":{"name":"search","arguments":"{\"query\":\"berth %d\"}"}}]},{"role":"tool","tool_call_id":"c%d","content":"berth %d is free until noon"},`, i, i, i, i)
	}
	i := 0
	lines := readerFunc(func(p []byte) (int, error) {
		if i == runs {
			return 0, io.EOF
		}
		i++
		return copy(p, fmt.Sprintf(`{"id":%d,"messages":[{"role":"user","content":"q %d"},%s{"role":"assistant","content":"done"}],"score":%d}`+"\n", i, i, call.Bytes(), i%2)), nil
	})
	var peak uint64
	n, calls, began := 0, 0, time.Now()
	report, err := Read(t.Context(), "book", "f", &wholeReader{r: lines}, func(e *events.Execution) error {
		if n++; n%1000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak = max(peak, m.Sys)
		}
		for _, s := range e.Steps {
			calls += len(s.Calls)
		}
		return nil
	})
	seconds := time.Since(began).Seconds()
	if err != nil || report.Runs != runs || calls != runs*perRun || seconds > 60 || peak > 200<<20 {
		t.Errorf("got %d runs with %d calls in %.1f s and %d MB, error %v", report.Runs, calls, seconds, peak>>20, err)
	}
	t.Logf("%d runs with %d calls in %.1f s, at most %d MB", report.Runs, calls, seconds, peak>>20)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// wholeReader reads from a reader that returns whole lines, which need a large buffer.
type wholeReader struct {
	r    io.Reader
	buf  [64 << 10]byte
	rest []byte
}

func (w *wholeReader) Read(p []byte) (int, error) {
	if len(w.rest) == 0 {
		n, err := w.r.Read(w.buf[:])
		if err != nil {
			return 0, err
		}
		w.rest = w.buf[:n]
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

package scoring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/events"
)

// The test binary also runs as the evaluator programs. Its arguments are this word, the program name and its
// arguments.
const asProgram = "as-a-program"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asProgram {
		programs[os.Args[2]](os.Args[3:])
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var programs = map[string]func(args []string){
	// tell returns its input as feedback.
	"tell": func([]string) {
		in, _ := io.ReadAll(os.Stdin)
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"score": 0.5, "feedback": string(in)})
	},
	"environment": func([]string) {
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{"score": 1, "feedback": strings.Join(os.Environ(), "\n")})
	},
	"say": func(args []string) { fmt.Print(args[0]) },
	"fail": func([]string) {
		fmt.Fprintln(os.Stderr, strings.Repeat("long before. ", 1000)+"no licence")
		os.Exit(3)
	},
	"hang": func(args []string) { fmt.Print(`{"score":1}`); announce(args[0]); block() },
	"fill": func([]string) {
		for {
			if _, err := fmt.Print(strings.Repeat("0123456789abcdef", 4096)); err != nil {
				block()
			}
		}
	},
	// leave exits, but leaves a blocked child with its output open.
	"leave": func(args []string) {
		child(args[0])
		fmt.Print(`{"score":1}`)
	},
	// cling blocks, and so does its child.
	"cling": func(args []string) { child(args[0]); block() },
	// linger blocks without output.
	"linger": func(args []string) { announce(args[0]); block() },
	// meet waits for a second instance and reports the number of running instances.
	"meet": func(args []string) {
		mark := func(what string) {
			if err := os.WriteFile(filepath.Join(args[0], fmt.Sprint(what, os.Getpid())), nil, 0o600); err != nil {
				os.Exit(1)
			}
		}
		mark("begun")
		begun, ended := 0, 0
		for begun < 2 {
			time.Sleep(time.Millisecond)
			all, _ := os.ReadDir(args[0])
			begun, ended = 0, 0
			for _, f := range all {
				if strings.HasPrefix(f.Name(), "begun") {
					begun++
				} else {
					ended++
				}
			}
		}
		fmt.Printf(`{"score":0,"feedback":"%d"}`, begun-ended)
		mark("ended")
	},
}

// block blocks until the process is killed. A select without cases would end a program without cgo: the runtime reports a
// deadlock.
func block() {
	for {
		time.Sleep(time.Hour)
	}
}

// announce writes the process id to a file.
func announce(file string) {
	if err := os.WriteFile(file+".new", fmt.Append(nil, os.Getpid()), 0o600); err == nil {
		_ = os.Rename(file+".new", file)
	}
}

// child starts a blocked child and waits for its process id.
func child(file string) {
	cmd := exec.Command(os.Args[0], asProgram, "linger", file)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// program returns a test program named "it".
func program(t *testing.T, args ...string) Program {
	t.Helper()
	return Program{"it", append([]string{os.Args[0], asProgram}, args...)}
}

// discardLog discards all log messages.
var discardLog = zerolog.Nop()

// longTimeout is a timeout that no test reaches.
const longTimeout = time.Minute

func runEvaluator(t *testing.T, timeout time.Duration, p Program) (events.Outcome, string) {
	t.Helper()
	var log bytes.Buffer
	l := zerolog.New(&log)
	o, err := NewScorer(Config{Programs: []Program{p}, Timeout: timeout}, 1).Evaluate(t.Context(), programTask("it"), Answer{Final: "42"}, &l)
	if err != nil {
		t.Fatal(err)
	}
	return o, log.String()
}

func programTask(name string) *events.Task {
	return &events.Task{ID: "t1", Question: "How much?", Context: "An invoice.", Evaluator: ByProgram + name}
}

func TestProgramReceivesTaskAndAnswer(t *testing.T) {
	t.Parallel()
	task := programTask("it")
	task.Target = "43"
	j := NewScorer(Config{Programs: []Program{program(t, "tell")}, Timeout: longTimeout}, 1)
	o, err := j.Evaluate(t.Context(), task, Answer{Reasoning: "I counted.", Final: "42"}, &discardLog)
	if err != nil || o.Score != 0.5 || o.Label != events.Partial || o.By != "program:it" {
		t.Fatalf("got %+v, %v", o, err)
	}
	const want = `{"id":"t1","question":"How much?","context":"An invoice.","target":"43","answer":"42","reasoning":"I counted."}`
	if o.Feedback != want {
		t.Errorf("got %s, want %s", o.Feedback, want)
	}
}

func TestProgramOutputs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for output, want := range map[string]events.Outcome{
		`{"score":1}`:                             {Score: 1, Label: events.Success},
		`{"score":0.25,"feedback":"nearly"}`:      {Score: 0.25, Label: events.Partial, Feedback: "nearly"},
		` {"score":0.9,"label":"success"}` + "\n": {Score: 0.9, Label: events.Success},
		`{"score":0,"more":[1]}`:                  {Label: events.Failure},
		`{"score":1,"violation":true}`:            {Label: events.Failure, Violation: true},
		`{"violation":true,"feedback":"a key"}`:   {Label: events.Failure, Feedback: "a key", Violation: true},
		`{"violation":"yes","score":1}`:           {Label: events.Unknown, Feedback: "evaluator program it: printed no JSON object with a score: json: cannot unmarshal string into Go struct field programOutput.violation of type bool"},
		`{"label":"unknown"}`:                     {Label: events.Unknown},
		``:                                        {Label: events.Unknown, Feedback: "evaluator program it: printed no JSON object with a score: EOF"},
		`fine!`:                                   {Label: events.Unknown, Feedback: "evaluator program it: printed no JSON object with a score: invalid character 'i' in literal false (expecting 'a')"},
		`[1]`:                                     {Label: events.Unknown, Feedback: "evaluator program it: printed no JSON object with a score: json: cannot unmarshal array into Go value of type scoring.programOutput"},
		`{"score":1} {"score":0}`:                 {Label: events.Unknown, Feedback: "evaluator program it: printed no JSON object with a score: unexpected data after the object"},
		`{"feedback":"good"}`:                     {Label: events.Unknown, Feedback: "evaluator program it: printed no score"},
		`{"score":7}`:                             {Label: events.Unknown, Feedback: "evaluator program it: score: must be between 0 and 1, got 7"},
		`{"score":-0.1}`:                          {Label: events.Unknown, Feedback: "evaluator program it: score: must be between 0 and 1, got -0.1"},
		`{"score":1,"label":"splendid"}`:          {Label: events.Unknown, Feedback: `evaluator program it: label: want success, partial, failure or unknown, got "splendid"`},
	} {
		want.By = "program:it"
		if o, _ := runEvaluator(t, longTimeout, program(t, "say", output)); !reflect.DeepEqual(o, want) {
			t.Errorf("%s: got %+v, want %+v", output, o, want)
		}
	}
}

func TestFailingPrograms(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		program  Program
		timeout  time.Duration
		feedback string
	}{
		"crashes":         {program(t, "fail"), longTimeout, "evaluator program it: exit status 3"},
		"hangs":           {program(t, "hang", filepath.Join(t.TempDir(), "pid")), 300 * time.Millisecond, "evaluator program it: timed out after 300ms"},
		"floods":          {program(t, "fill"), longTimeout, "evaluator program it: printed more than 1 MiB"},
		"is gone":         {Program{"it", []string{filepath.Join(t.TempDir(), "gone")}}, longTimeout, "no such file or directory"},
		"is a shell line": {Program{"it", []string{"true; echo"}}, longTimeout, `exec: "true; echo": executable file not found in $PATH`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, log := runEvaluator(t, test.timeout, test.program)
			if o.Label != events.Unknown || o.Score != 0 || o.By != "program:it" || !strings.HasSuffix(o.Feedback, test.feedback) {
				t.Errorf("got %+v, want %q", o, test.feedback)
			}
			if !strings.Contains(log, `"task":"t1"`) {
				t.Errorf("got log %q", log)
			}
			if name == "crashes" && (!strings.Contains(log, "no licence") || len(log) > 2*maxLogged) {
				t.Errorf("got log %q, want the end of standard error", log)
			}
		})
	}
}

// A blocked program is killed together with its children. The children of a program that exits are killed, too.
func TestProgramAndItsChildrenAreKilled(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ps"); err != nil || runtime.GOOS == "windows" {
		t.Skip("no ps to look with, or no process groups")
	}
	for what, test := range map[string]struct {
		timeout time.Duration
		label   events.Label
	}{
		"hang":  {250 * time.Millisecond, events.Unknown},
		"cling": {250 * time.Millisecond, events.Unknown},
		"leave": {longTimeout, events.Success}, // its output was complete
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "pid")
			pid, err := []byte(nil), fs.ErrNotExist
			// A slow machine needs more time to start the child.
			for timeout := test.timeout; errors.Is(err, fs.ErrNotExist) && timeout <= longTimeout; timeout *= 2 {
				if o, _ := runEvaluator(t, timeout, program(t, what, file)); o.Label != test.label {
					t.Errorf("got %+v, want %s", o, test.label)
				}
				pid, err = os.ReadFile(file)
			}
			if err != nil {
				t.Fatal(err)
			}
			for alive(t, string(pid)) {
				time.Sleep(time.Millisecond) // until the timeout of the test
			}
		})
	}
}

// alive reports whether a process runs. A zombie process still has an entry.
func alive(t *testing.T, pid string) bool {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "ps", "-o", "stat=", "-p", pid).Output()
	state := strings.TrimSpace(string(out))
	return err == nil && state != "" && !strings.HasPrefix(state, "Z")
}

func TestProgramEnvironmentIsRestricted(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-canary")
	t.Setenv("DEBRIEF_UPSTREAM_OPENAI_KEY", "canary")
	t.Setenv("LANG", "C.UTF-8")
	o, _ := runEvaluator(t, longTimeout, program(t, "environment"))
	if o.Label != events.Success {
		t.Fatalf("got %+v", o)
	}
	var names []string
	for line := range strings.Lines(o.Feedback) {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
		if !slices.Contains([]string{"PATH", "HOME", "LANG", "TMPDIR"}, name) {
			t.Errorf("it sees %s", line)
		}
	}
	if !slices.Contains(names, "LANG") || !slices.Contains(names, "PATH") {
		t.Errorf("it sees %v, want the allowed variables only", names)
	}
}

func TestProgramsRunInParallelUpToTheLimit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := NewScorer(Config{Programs: []Program{program(t, "meet", dir)}, Timeout: longTimeout}, 2)
	var all sync.WaitGroup
	var met atomic.Bool
	for range 8 {
		all.Go(func() {
			o, err := j.Evaluate(t.Context(), programTask("it"), Answer{}, &discardLog)
			if err != nil || o.Feedback != "1" && o.Feedback != "2" {
				t.Errorf("got %+v, %v, want 2 at a time", o, err)
			}
			if o.Feedback == "2" {
				met.Store(true)
			}
		})
	}
	all.Wait()
	if !met.Load() {
		t.Error("no two programs ran at the same time")
	}
}

func TestCancelledEvaluationReturnsNoOutcome(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	j := NewScorer(Config{Programs: []Program{program(t, "hang", file)}, Timeout: longTimeout}, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for range 2 { // one running, one waiting
		go func() {
			_, err := j.Evaluate(ctx, programTask("it"), Answer{}, &discardLog)
			ended <- err
		}()
	}
	for {
		if _, err := os.Stat(file); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	stop()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
}

func TestShellScripts(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no shell")
	}
	var p Program
	if err := p.UnmarshalText([]byte(`it=sh "testdata/contains.sh" '4 2'`)); err != nil {
		t.Fatal(err)
	}
	j := NewScorer(Config{Programs: []Program{p}, Timeout: longTimeout}, 1)
	for answer, want := range map[string]events.Label{"it is 4 2, $(touch pwned) `touch pwned`": events.Success, "42": events.Failure} {
		if o, err := j.Evaluate(t.Context(), programTask("it"), Answer{Final: answer}, &discardLog); err != nil || o.Label != want || o.Feedback == "" {
			t.Errorf("%s: got %+v, %v, want %s", answer, o, err, want)
		}
	}
	if _, err := os.Stat("pwned"); err == nil {
		t.Error("an answer was executed")
	}
}

func TestTaskSelectsProgramByNameOnly(t *testing.T) {
	t.Parallel()
	j := NewScorer(Config{Programs: []Program{{"b", []string{"true"}}, {"a", []string{"true"}}}}, 1)
	for _, evaluator := range []string{"program:c", "program:true"} {
		err := j.Check(evaluator)
		_, same := j.Evaluate(t.Context(), &events.Task{Evaluator: evaluator}, Answer{}, &discardLog)
		if !errors.Is(err, ErrNotScorable) || !strings.HasSuffix(err.Error(), "program:a, program:b") || same == nil || same.Error() != err.Error() {
			t.Errorf("%s: got %v and %v, want the known ones", evaluator, err, same)
		}
	}
	if err := errors.Join(j.Check("program:a"), j.Check("exact")); err != nil {
		t.Error(err)
	}
}

func TestParseProgramFlag(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		`n=judge`:                     {"judge"},
		`n= judge  -a	b `:             {"judge", "-a", "b"},
		`n='my judge' "a b" c\ d`:     {"my judge", "a b", "c d"},
		`n=judge a'b'"c"d ""`:         {"judge", "abcd", ""},
		`n=judge '\n' "\n" "\"" "\\"`: {"judge", `\n`, `\n`, `"`, `\`},
		`n=judge --x=y $HOME *`:       {"judge", "--x=y", "$HOME", "*"},
	} {
		var p Program
		if err := p.UnmarshalText([]byte(text)); err != nil || p.Name != "n" || !slices.Equal(p.Command, want) {
			t.Errorf("%s: got %+v, %v, want %q", text, p, err, want)
		}
	}
	for text, names := range map[string]string{
		"judge":     "NAME=COMMAND",
		"=judge":    "NAME=COMMAND",
		"a b=judge": "NAME=COMMAND",
		"n=":        "n: ",
		"n=  ":      "n: ",
		"n='a":      "n: ",
		`n="a\"`:    "n: ",
		"n=a; b":    "n: ",
	} {
		if err := new(Program).UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), names) {
			t.Errorf("%s: got %v, want an error that names %q", text, err, names)
		}
	}
	c := Config{Programs: []Program{{"n", []string{"/gone/judge"}}, {"n", []string{"true"}}}, Timeout: -1}
	err := c.Validate()
	if err == nil || !strings.HasPrefix(err.Error(), "Timeout: ") || strings.Count(err.Error(), "\nPrograms: ") != 2 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want errors of Timeout and twice of Programs, and the missing program", err)
	}
}

func FuzzParseOutput(f *testing.F) {
	f.Add([]byte(`{"score":0.5,"label":"partial","feedback":"x"}`))
	f.Add([]byte(`{"score":null}`))
	f.Fuzz(func(t *testing.T, out []byte) {
		o, err := parseOutput(out)
		if err == nil && (!(o.Score >= 0 && o.Score <= 1) || o.Label == "") {
			t.Errorf("got %+v", o)
		}
		if err != nil && !reflect.DeepEqual(o, events.Outcome{}) {
			t.Errorf("got %+v and %v", o, err)
		}
	})
}

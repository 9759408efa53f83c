package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"debrief/events"
	"debrief/events/bus/bustest"

	book "debrief/playbook"
)

func TestMain(m *testing.M) {
	testscript.Main(scripts{m}, map[string]func(){"debrief": main})
}

// scripts runs the tests with Prepare, but not the program: package testscript starts this binary as either.
type scripts struct{ *testing.M }

// Run implements testscript.TestingM.
func (s scripts) Run() int {
	bustest.Prepare()
	return s.M.Run()
}

// TestScripts runs each command as a person does: testdata/script/*.txtar. A script begins in a directory of its own,
// without settings from the environment, with $DATA for a data directory, and $HEALTH, $MODEL and $HTTP for free addresses.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setUp,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exit":    exitCode,
			"oneline": oneLine,
			"await":   await,
			"listens": listens,
			"ready":   ready,
			"health":  health,
			"field":   field,
			"same":    same,
			"fill":    fill,
			"purge":   purge,
			"mar":     mar,
			"deny":    deny,
			"prose":   prose,
			"repeat":  repeat,
			"post":    post,
			"reflect": reflect,
			"until":   until,
			"bury":    bury,
			"letter":  letter,
			"damage":  damage,

			"natsserver": natsServer,
			"nostreams":  noStreams,

			"bulletid":    bulletID,
			"handle":      handle,
			"accounted":   accounted,
			"handin":      handIn,
			"serveraddr":  serverAddr,
			"awaitstatus": awaitStatus,
			"redstatus":   redStatus,
		},
	})
}

func setUp(env *testscript.Env) error {
	env.Setenv("HEALTH", freeAddress())
	env.Setenv("MODEL", freeAddress())
	env.Setenv("HTTP", freeAddress())
	env.Setenv("DATA", filepath.Join(env.WorkDir, "data"))
	env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
	env.Setenv("USER", "tester")
	env.Setenv("GOGC", "400") // garbage collection takes a third of the CPU time of a command
	return nil
}

// ports counts those that freeAddress gave out.
var ports atomic.Int32

// freeAddress is one that nobody listened on a moment ago, and that the system gives to nobody: it is below the ports
// that it hands out, and where it is in there depends on the process.
func freeAddress() string {
	for {
		port := 12000 + (os.Getpid()*64+int(ports.Add(1)))%16000
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
}

// exitCode runs a program and wants it to end with a code: exit 2 debrief status --nope.
func exitCode(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exit code program [args...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := 0
	var ended interface{ ExitCode() int }
	if errors.As(err, &ended) {
		code = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// oneLine wants the last command's standard error to be one line that matches; where usage was wrong another one may
// point to the help. With --json it is a JSON document.
func oneLine(ts *testscript.TestScript, _ bool, args []string) {
	text := strings.TrimSuffix(ts.ReadFile("stderr"), "\n")
	line, rest, _ := strings.Cut(text, "\n")
	if rest != "" && !regexp.MustCompile(`^See 'debrief[a-z ]* --help'\.$`).MatchString(rest) {
		ts.Fatalf("more than one line: %s", text)
	}
	if !regexp.MustCompile(args[0]).MatchString(line) {
		ts.Fatalf("%q does not match %s", line, args[0])
	}
	var failure struct {
		Error string
		Code  int `json:"exit_code"`
	}
	isDocument := json.Unmarshal([]byte(line), &failure) == nil && failure.Error != "" && failure.Code > 0
	if !isDocument && (!strings.HasPrefix(line, "debrief: ") || len(line) > 300) {
		ts.Fatalf("%q is neither a line for people nor the document of --json", line)
	}
}

// patienceOfTests is how long scripts wait for what must happen.
const patienceOfTests = 40 * time.Second

func eventually(ts *testscript.TestScript, try func() error) {
	for deadline := time.Now().Add(patienceOfTests); ; time.Sleep(10 * time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%v", err)
		}
	}
}

// await waits until a file exists and matches: await FILE REGEXP.
func await(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[1])
	eventually(ts, func() error {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		if err == nil && !pattern.Match(text) {
			err = fmt.Errorf("%q does not match %s", text, pattern)
		}
		return err
	})
}

// listens waits until a program accepts connections at an address: listens ADDRESS.
func listens(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, func() error {
		conn, err := net.Dial("tcp", args[0])
		if err == nil {
			_ = conn.Close()
		}
		return err
	})
}

// ready waits until the health check has a status and a body that matches: ready 200 running.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	health(ts, neg, []string{args[0], "/readyz", args[1]})
}

// health is that of any path: health 503 /healthz red.
func health(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile(args[2])
	eventually(ts, func() error {
		r, err := http.Get("http://" + ts.Getenv("HEALTH") + args[1])
		if err != nil {
			return err
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err == nil && (fmt.Sprint(r.StatusCode) != args[0] || !pattern.Match(body)) {
			err = fmt.Errorf("%s %s, want %s and %s", r.Status, body, args[0], pattern)
		}
		return err
	})
}

// post sends a file to the door for agents, variables put in, and wants a status: post 200 /api/v1/contexts request.json.
func post(ts *testscript.TestScript, _ bool, args []string) {
	body := os.Expand(ts.ReadFile(args[2]), ts.Getenv)
	resp, err := http.Post("http://"+ts.Getenv("HTTP")+args[1], "application/json", strings.NewReader(body))
	ts.Check(err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	ts.Check(err)
	if fmt.Sprint(resp.StatusCode) != args[0] {
		ts.Fatalf("status %s: %s, want %s", resp.Status, answer, args[0])
	}
	_, err = ts.Stdout().Write(answer)
	ts.Check(err)
}

// lastLine is the last line of the last command's output.
func lastLine(ts *testscript.TestScript) map[string]any {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	var v map[string]any
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil {
		ts.Fatalf("last line %q: %v", lines[len(lines)-1], err)
	}
	return v
}

// field wants a field of the last line of JSON, there or with this value: field seconds; field dead 0.
func field(ts *testscript.TestScript, neg bool, args []string) {
	v, ok := lastLine(ts)[args[0]]
	switch {
	case !ok && !neg:
		ts.Fatalf("no field %s", args[0])
	case len(args) > 1 && (fmt.Sprint(v) == args[1]) == neg:
		ts.Fatalf("%s is %v, want %s", args[0], v, args[1])
	}
}

// same keeps a field of the last line of JSON in a variable, or wants it to be what is kept there: same state_hash H.
func same(ts *testscript.TestScript, neg bool, args []string) {
	v := fmt.Sprint(lastLine(ts)[args[0]])
	switch old := ts.Getenv(args[1]); {
	case v == "" || v == "<nil>":
		ts.Fatalf("%s is empty", args[0])
	case old == "":
		ts.Setenv(args[1], v)
	case (old == v) == neg:
		ts.Fatalf("%s was %s and is %s", args[0], old, v)
	}
}

// fill writes a file of so many KiB of text.
func fill(ts *testscript.TestScript, _ bool, args []string) {
	var kib int
	if _, err := fmt.Sscan(args[1], &kib); err != nil {
		ts.Fatalf("%v", err)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(strings.Repeat("sixteen letters. ", kib<<10/17)), 0o600))
}

// repeat hands in task after task from a file until the command fails: repeat FILE. The first one that failed left its
// words in standard error.
func repeat(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile(args[0])
	for i := range 100 {
		if err := ts.Exec("debrief", "submit", "--data", ts.Getenv("DATA"), "--id", fmt.Sprint("t", i), "--context", text, "What does it say?"); err != nil {
			ts.Setenv("STORED", fmt.Sprint(i))
			return
		}
	}
	ts.Fatalf("100 tasks were stored")
}

// reflect hands in the reflections of a file, a JSON object a line, so many times over: reflect BOOK TIMES FILE.
func reflect(ts *testscript.TestScript, _ bool, args []string) {
	nc, err := nats.Connect(serverURL(ts))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	var times int
	_, err = fmt.Sscan(args[1], &times)
	ts.Check(err)
	for range times {
		for line := range strings.Lines(ts.ReadFile(args[2])) {
			r := new(events.Reflection)
			ts.Check(json.Unmarshal([]byte(line), r))
			r.Book, r.ID, r.Execution = book.Book(args[0]), events.NewID(), events.NewID()
			r.Handle, r.Reflector, r.Model = events.NewHandle(1, r.Execution), "test", "test"
			subject, header, data, err := events.Encode(r)
			ts.Check(err)
			_, err = js.PublishMsg(context.Background(), &nats.Msg{Subject: subject, Header: header, Data: data})
			ts.Check(err)
		}
	}
}

// serverURL is where the server on $DATA listens.
func serverURL(ts *testscript.TestScript) string {
	text, err := os.ReadFile(filepath.Join(ts.Getenv("DATA"), "debrief.holder"))
	ts.Check(err)
	var holder struct{ URL string }
	ts.Check(json.Unmarshal(text, &holder))
	return holder.URL
}

// serverAddr sets a variable to the address of the server on $DATA.
func serverAddr(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimPrefix(serverURL(ts), "nats://"))
}

// until runs a program until its output matches: until PATTERN program [args...].
func until(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	eventually(ts, func() error {
		if err := ts.Exec(args[1], args[2:]...); err != nil {
			return err
		}
		if text := ts.ReadFile("stdout"); !pattern.MatchString(text) {
			return fmt.Errorf("%q does not match %s", text, pattern)
		}
		return nil
	})
}

// awaitStatus waits until 'debrief status' has a line that matches.
func awaitStatus(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[0])
	eventually(ts, func() error {
		if err := ts.Exec("debrief", "status", "--data", ts.Getenv("DATA")); err != nil {
			return err
		}
		if out := ts.ReadFile("stdout"); !pattern.MatchString(out) {
			return fmt.Errorf("%s does not match %s", out, pattern)
		}
		return nil
	})
}

// redStatus waits until 'debrief status', with little patience, ends with its code for red over a role and has a line
// that matches: redstatus generator '^red: '.
func redStatus(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[1])
	eventually(ts, func() error {
		err := ts.Exec("debrief", "status", "--data", ts.Getenv("DATA"), "--alarm-after", "200ms")
		var ended interface{ ExitCode() int }
		if !errors.As(err, &ended) || ended.ExitCode() != 6 {
			return fmt.Errorf("it ended with %v, want exit code 6", err)
		}
		if out := ts.ReadFile("stdout"); !pattern.MatchString(out) {
			return fmt.Errorf("%s does not match %s", out, pattern)
		}
		if said := ts.ReadFile("stderr"); !strings.Contains(said, args[0]) {
			return fmt.Errorf("%q does not name %s", said, args[0])
		}
		return nil
	})
}

// handIn hands in so many tasks.
func handIn(ts *testscript.TestScript, _ bool, args []string) {
	var n int
	if _, err := fmt.Sscan(args[0], &n); err != nil {
		ts.Fatalf("%v", err)
	}
	for i := range n {
		ts.Check(ts.Exec("debrief", "submit", "--data", ts.Getenv("DATA"), fmt.Sprint("How much is ", i, " and 2?")))
	}
	ts.Setenv("STORED", args[0])
}

// accounted waits until every task that repeat stored either waits or has its execution.
func accounted(ts *testscript.TestScript, _ bool, _ []string) {
	eventually(ts, func() error {
		failed := ts.Exec("debrief", "status", "--json", "--data", ts.Getenv("DATA")) // it is red while the store is full
		var o struct {
			Streams []struct {
				Name     string
				Messages uint64
			}
		}
		if err := json.Unmarshal([]byte(ts.ReadFile("stdout")), &o); err != nil {
			return errors.Join(failed, err)
		}
		n := uint64(0)
		for _, s := range o.Streams {
			if s.Name == events.StreamTasks || s.Name == events.StreamExecutions {
				n += s.Messages
			}
		}
		if fmt.Sprint(n) != ts.Getenv("STORED") {
			return fmt.Errorf("%d tasks and executions, %s tasks were stored", n, ts.Getenv("STORED"))
		}
		return nil
	})
}

// bulletID sets a variable to the id of the first bullet that the last command listed.
func bulletID(ts *testscript.TestScript, _ bool, args []string) {
	var shown struct {
		Bullets []struct{ ID string }
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &shown))
	if len(shown.Bullets) == 0 {
		ts.Fatalf("no bullets")
	}
	ts.Setenv(args[0], shown.Bullets[0].ID)
}

// handle sets a variable to the first handle of an execution in the last command's output.
func handle(ts *testscript.TestScript, _ bool, args []string) {
	h := regexp.MustCompile(`[0-9]+-[0-9a-f]{8}\b`).FindString(ts.ReadFile("stdout"))
	if h == "" {
		ts.Fatalf("no handle")
	}
	ts.Setenv(args[0], h)
}

// purge empties a stream of the server that runs on $DATA.
func purge(ts *testscript.TestScript, _ bool, args []string) {
	nc, err := nats.Connect(serverURL(ts))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	s, err := js.Stream(context.Background(), args[0])
	ts.Check(err)
	ts.Check(s.Purge(context.Background()))
}

// mar damages what the server on $DATA holds of a book: a bullet of its view, or its log, which gets the first record of
// another installation: mar view BOOK BULLET; mar log BOOK.
func mar(ts *testscript.TestScript, _ bool, args []string) {
	nc, err := nats.Connect(serverURL(ts))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	name := book.Book(args[1])
	if args[0] == "view" {
		kv, err := js.KeyValue(context.Background(), events.BucketPlaybook)
		ts.Check(err)
		data, err := events.Marshal(&book.Bullet{ID: book.BulletID(args[2]), Section: "others", Content: "Something else."})
		ts.Check(err)
		_, err = kv.Put(context.Background(), events.BulletKey(name, book.BulletID(args[2])), data)
		ts.Check(err)
		return
	}
	data, err := events.EncodeDelta(&book.Delta{Version: 1, Author: "elsewhere"})
	ts.Check(err)
	_, err = js.PublishMsg(context.Background(), &nats.Msg{Subject: events.KindDelta.Subject(name), Header: events.SchemaHeader(), Data: data})
	ts.Check(err)
}

// deny serves a model that takes no key, at $DENIER.
func deny(ts *testscript.TestScript, _ bool, _ []string) {
	serveModel(ts, "DENIER", http.StatusUnauthorized, `{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}`)
}

// prose serves a model that replies in prose, at $PROSE: prose 'The answer is 42.'
func prose(ts *testscript.TestScript, _ bool, args []string) {
	body, err := json.Marshal(map[string]any{"model": "prose-1", "choices": []any{map[string]any{
		"finish_reason": "stop", "message": map[string]string{"role": "assistant", "content": args[0]},
	}}})
	ts.Check(err)
	serveModel(ts, "PROSE", http.StatusOK, string(body))
}

// serveModel serves a model with the same response to each request, at an address that it stores in a variable.
func serveModel(ts *testscript.TestScript, variable string, status int, body string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	srv := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})}
	go func() { _ = srv.Serve(l) }()
	ts.Defer(func() { _ = srv.Close() })
	ts.Setenv(variable, "http://"+l.Addr().String()+"/v1")
}

package integration

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// walkRepeats is the number of tasks or calls of a walk. A function belongs to the walk if it ran as many times more than in a process
// that was idle for the same time.
const walkRepeats = 30

// TestWalks counts the files and functions that one task and one gateway call execute in all roles, without those of the simulated
// model. A call ends with its reply; its run is stored later and does not count. The limits keep the numbers from
// growing.
//
//	DEBRIEF_LONG=1 go test ./integration -run TestWalks -v
func TestWalks(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("builds the program with counters: set " + longEnv)
	}
	bin := filepath.Join(t.TempDir(), "debrief")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=debrief/...", "-o", bin, "../cmd/debrief")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, walk := range []struct {
		name               string
		maxFiles, maxFuncs int
		mustHave           string // a function of the walk
		hasGateway         bool
		act                func(t *testing.T, server, gateway string)
	}{
		{"task", 196, 900, "generator/generator.go:answer", false, submitTasks},
		{"gateway call", 97, 430, "cmd/internal/proxy/gateway.go:ServeHTTP", true, callModel},
	} {
		t.Run(walk.name, func(t *testing.T) {
			var took time.Duration
			busy := countExecutions(t, bin, walk.hasGateway, func(server, gateway string) {
				began := time.Now()
				walk.act(t, server, gateway)
				took = time.Since(began)
			})
			idle := countExecutions(t, bin, walk.hasGateway, func(string, string) { time.Sleep(took) })
			files := map[string]bool{}
			functions := 0
			for name, n := range busy {
				isModel := strings.HasPrefix(name, "cmd/internal/simulated/")
				if n-idle[name] >= walkRepeats && !isModel {
					file, _, _ := strings.Cut(name, ":")
					files[file] = true
					functions++
				}
			}
			t.Logf("WALK of a %s: %d functions in %d files", walk.name, functions, len(files))
			if len(files) > walk.maxFiles || functions > walk.maxFuncs {
				t.Errorf("a %s executes %d functions in %d files, want at most %d in %d", walk.name, functions, len(files), walk.maxFuncs, walk.maxFiles)
			}
			if busy[walk.mustHave]-idle[walk.mustHave] < walkRepeats {
				t.Errorf("a %s does not execute %s", walk.name, walk.mustHave)
			}
		})
	}
}

// submitTasks submits tasks one after the other. Each is answered, reflected on and curated before the next.
func submitTasks(t *testing.T, server, _ string) {
	conn := connect(t, server)
	for _, task := range invoices(rand.New(rand.NewPCG(1, 1)), walkRepeats) {
		if _, err := bus.Request[events.Execution](t.Context(), conn, task, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		awaitSettled(t, t.Context(), conn)
	}
}

// callModel asks the model through the gateway, a new question in each call.
func callModel(t *testing.T, _, gateway string) {
	for i := range walkRepeats {
		body := fmt.Sprintf(`{"model":"simulated-invoice-desk","messages":[{"role":"user","content":"What is due on invoice %d?"}]}`, i)
		reply, err := http.Post(gateway+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != http.StatusOK {
			t.Fatalf("got %s, want 200", reply.Status)
		}
	}
}

// countExecutions returns how many times each function, named file:function, ran in a process while act used it.
func countExecutions(t *testing.T, bin string, hasGateway bool, act func(server, gateway string)) map[string]int {
	t.Helper()
	counters, data := t.TempDir(), t.TempDir()
	listen, agents, health := freeAddress(t), freeAddress(t), freeAddress(t)
	endpoint := "none"
	if hasGateway {
		endpoint = agents
	}
	up := start(t, "up", func() *exec.Cmd {
		cmd := exec.Command(bin, "up", "--simulated", "--data", data, "--listen", listen, "--http", endpoint, "--health", health)
		cmd.Env = append(os.Environ(), "GOCOVERDIR="+counters)
		return cmd
	})
	awaitReady(t, health)
	act("nats://"+listen, "http://"+agents)
	if code, err := up.stop(); err != nil || code != 0 {
		t.Fatalf("stop: exit code %d, %v", code, err)
	}
	profile := filepath.Join(counters, "profile.txt")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+counters, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]int{}
	functions := map[string][]function{} // by file
	for line := range bytes.Lines(text) {
		// debrief/events/codec.go:12.34,15.2 3 42
		file, rest, ok := strings.Cut(strings.TrimSpace(string(line)), ".go:")
		fields := strings.Fields(rest)
		if !ok || len(fields) != 3 {
			continue
		}
		n, err := strconv.Atoi(fields[2])
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		first, _, _ := strings.Cut(fields[0], ".")
		row, err := strconv.Atoi(first)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		file = strings.TrimPrefix(file, "debrief/") + ".go"
		if functions[file] == nil {
			functions[file] = functionsOf(t, file)
		}
		for _, f := range functions[file] {
			if f.first <= row && row <= f.last {
				name := file + ":" + f.name
				counts[name] = max(counts[name], n)
			}
		}
	}
	return counts
}

// function is a declared function and its lines in the file.
type function struct {
	name        string
	first, last int
}

func functionsOf(t *testing.T, file string) (all []function) {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, filepath.Join("..", file), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, decl := range parsed.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok {
			all = append(all, function{name: f.Name.Name, first: set.Position(f.Pos()).Line, last: set.Position(f.End()).Line})
		}
	}
	return all
}

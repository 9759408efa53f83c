// Package integration tests what no single package can: the programs together, and that the house is built as planned.
package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pkg is what go list tells of a package.
type pkg struct {
	ImportPath   string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// floor is the path within the module: "events/bus" of debrief/events/bus.
func (p *pkg) floor() string { return strings.TrimPrefix(p.ImportPath, "debrief/") }

// The words of the plan.
const (
	ours   = "debrief/..."
	others = "*.*/..." // neither ours nor the standard library's
	client = "github.com/nats-io/nats.go/..."
	server = "github.com/nats-io/nats-server/..."
	openai = "github.com/sashabaranov/go-openai/..."
	docker = "github.com/testcontainers/..."
	counts = "github.com/prometheus/client_golang/..."
	promql = "github.com/prometheus/prometheus/..." // its language and engine, for a test
)

// plan is the floor plan: what the packages that match may not import. Arrows go down, siblings have no door between
// them.
var plan = []struct {
	floor  string
	why    string
	except []string // may be imported all the same
	banned []string
}{
	{"playbook", "the domain is pure: standard library only", nil, []string{others, ours}},
	{"playbook/...", "the domain does not know who uses it", []string{"debrief/playbook/...", "debrief/events", "debrief/events/direct", "debrief/events/denied"}, []string{ours, openai, server}},
	{"playbook/inmem", "a store without a broker", nil, []string{client, server}},
	{"playbook/recall", "recall is part of the domain", nil, []string{client, server, "debrief/events/..."}},
	{"playbook/storetest", "both stores pass it, so it knows neither", nil, []string{client, server, "debrief/events/...", "debrief/playbook/inmem", "debrief/playbook/natskv"}},

	{"events", "the wire knows playbooks, redaction and its codec, and no connection", []string{"debrief/playbook", "debrief/events/chat", "debrief/events/redact", "github.com/vmihailenco/msgpack/..."}, []string{others, ours}},
	{"events/chat", "the shape of a conversation knows no one who has it", nil, []string{ours, client, server, openai}},
	{"events/redact", "a secret is known by its text alone", nil, []string{others, ours}},
	{"events/bus", "transport carries events and does not know what they are for", []string{"debrief/events", "debrief/events/direct", "debrief/events/denied", "debrief/events/redact", "debrief/playbook"}, []string{ours, server, openai}},
	{"events/denied", "what the server refuses is the same whoever asks", []string{"github.com/nats-io/nats.go/..."}, []string{others, ours}},
	{"events/direct", "a read of a stream does not know what is in it", []string{"github.com/nats-io/nats.go"}, []string{others, ours}},
	{"events/window", "windows are kept here and used elsewhere", []string{"debrief/events", "debrief/events/direct", "debrief/events/denied", "debrief/events/redact", "debrief/playbook"}, []string{ours, server, openai}},
	{"events/service", "a door knows who is asked, and not how it is done", []string{"debrief/events", "debrief/events/bus", "debrief/events/redact", "debrief/playbook"}, []string{ours, server, openai}},
	{"events/liveness", "liveness is read from the transport, and knows no one who is judged", []string{"debrief/events", "debrief/events/bus"}, []string{ours, server, openai}},
	{"events/natsd", "a server knows no streams", nil, []string{ours, openai}},

	{"generator/selection", "what a context is made of is pure", []string{"debrief/playbook", "debrief/events", "debrief/events/chat"}, []string{ours}},
	{"generator/records", "what a context is made of is pure", []string{"debrief/events", "debrief/events/chat"}, []string{ours}},
	{"generator/sliding", "what a context is made of is pure", []string{"debrief/events/chat"}, []string{ours}},
	{"generator/assembly", "assembly is pure", []string{"debrief/playbook", "debrief/events", "debrief/events/chat", "debrief/generator/..."}, []string{ours}},
	{"generator/scoring", "a judge knows the task and the answer, and nobody who asks", []string{"debrief/events"}, []string{ours}},
	{"generator/...", "a role sees events, no messages and no provider", nil, []string{client, server, openai, "debrief/cmd/...", "debrief/events/natsd", "debrief/reflector/...", "debrief/curator/..."}},
	{"reflector/...", "a role sees events, no messages and no provider", nil, []string{client, server, openai, "debrief/cmd/...", "debrief/events/natsd", "debrief/generator/...", "debrief/curator/..."}},
	{"curator/gate", "a verdict is a function of counts", []string{"debrief/playbook"}, []string{ours}},
	{"curator/...", "a role sees events, no messages and no provider", nil, []string{client, server, openai, "debrief/cmd/...", "debrief/events/natsd", "debrief/generator/...", "debrief/reflector/..."}},

	{"cmd/internal/stats", "numbers know not what they are of", nil, []string{others, ours}},
	{"cmd/internal/...", "an adapter serves every program, and programs do not link the server", nil, []string{server, "debrief/events/natsd"}},
}

// keepers are dependencies with one keeper, in programs and tests alike.
var keepers = []struct {
	imported string
	tests    bool // tests may import it as well
	by       []string
}{
	{server, true, []string{"events/natsd"}},
	{"debrief/events/natsd", true, []string{"cmd/debrief", "events/bus/bustest"}},
	{"debrief/events/direct", true, []string{"playbook/natskv", "events/window", "events/bus"}},
	{openai, false, []string{"cmd/internal/llm", "cmd/internal/simulated"}},
	{docker, false, []string{"integration/..."}},
	{counts, false, []string{"cmd/internal/metrics"}},
	{promql, false, []string{"integration"}},
}

func TestFloorPlan(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, p := range packages(t) {
		for _, rule := range plan {
			if !matches(rule.floor, p.floor()) {
				continue
			}
			for _, imp := range p.Imports {
				if matchesAny(rule.banned, imp) && !matchesAny(rule.except, imp) {
					t.Errorf("%s imports %s: %s", p.ImportPath, imp, rule.why)
				}
			}
		}
	}
}

func TestKeepersKeep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, p := range packages(t) {
		for _, k := range keepers {
			if matchesAny(k.by, p.floor()) {
				continue
			}
			imports := slices.Clone(p.Imports)
			if !k.tests {
				imports = slices.Concat(imports, p.TestImports, p.XTestImports)
			}
			for _, imp := range imports {
				if matches(k.imported, imp) {
					t.Errorf("%s imports %s: only %s may", p.ImportPath, imp, strings.Join(k.by, ", "))
				}
			}
		}
	}
}

// TestWorkersDoNotLinkTheServer looks at everything that a worker's binary holds.
func TestWorkersDoNotLinkTheServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, p := range packages(t) {
		if !slices.Contains([]string{"cmd/generator", "cmd/reflector", "cmd/curator"}, p.floor()) {
			continue
		}
		for _, dep := range p.Deps {
			if matches(server, dep) || matches(docker, dep) || matches(promql, dep) {
				t.Errorf("%s links %s", p.ImportPath, dep)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" { // go list has no comment of a package that is only tests
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// TestTopLevel: the first screen of the repository is given, and does not grow.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../.git"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("not a git checkout")
	}
	given := strings.Fields("go.mod go.sum cmd generator reflector curator events playbook deploy integration README.md LICENSE")
	// safe.directory: a build machine may have checked out as somebody else.
	for _, file := range strings.Split(string(run(t, "git", "-c", "safe.directory=*", "ls-files", "-z")), "\x00") {
		top, _, _ := strings.Cut(file, "/")
		if file != "" && !strings.HasPrefix(top, ".") && !slices.Contains(given, top) {
			t.Errorf("%s: %s is not one of the names at the top level", file, top)
		}
	}
}

// TestMatches keeps the plan from being met because nothing matches anything.
func TestMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, path string
		want          bool
	}{
		{"playbook", "playbook", true},
		{"playbook", "playbook/natskv", false},
		{"playbook/...", "playbook", true},
		{"playbook/...", "playbook/natskv", true},
		{"playbook/...", "playbooks", false},
		{server, "github.com/nats-io/nats-server/v2/server", true},
		{client, "github.com/nats-io/nats.go", true},
		{client, "github.com/nats-io/nats.go/jetstream", true},
		{others, "github.com/nats-io/nats.go", true},
		{others, "golang.org/x/time/rate", true},
		{others, "encoding/json", false},
		{others, "debrief/playbook", false},
	} {
		if got := matches(test.pattern, test.path); got != test.want {
			t.Errorf("%s, %s: got %v, want %v", test.pattern, test.path, got, test.want)
		}
	}
}

// matches reports whether a path is the pattern, or below it where that ends in "/...". The pattern "*.*/..." is every
// path whose first element has a dot: whatever is neither ours nor the standard library's.
func matches(pattern, path string) bool {
	base, tree := strings.CutSuffix(pattern, "/...")
	if base == "*.*" {
		first, _, _ := strings.Cut(path, "/")
		return strings.Contains(first, ".")
	}
	return path == base || tree && strings.HasPrefix(path, base+"/")
}

func matchesAny(patterns []string, path string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool { return matches(p, path) })
}

// packages are all of the module's.
func packages(t *testing.T) []*pkg {
	t.Helper()
	watch(t)
	dec := json.NewDecoder(bytes.NewReader(run(t, "go", "list", "-e", "-json=ImportPath,Doc,GoFiles,Imports,TestImports,XTestImports,Deps", "./...")))
	var all []*pkg
	for {
		p := new(pkg)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 2 {
		t.Fatalf("go list found %d packages", len(all))
	}
	return all
}

// watch opens every Go file of the module. The test cache remembers what a test opens, and not what a command that it
// runs does: without this a door broken through later would go unseen.
func watch(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// run is the standard output of a command at the top of the module.
func run(t testing.TB, name string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = ".."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return out
}

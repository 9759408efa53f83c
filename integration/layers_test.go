// Package integration tests the programs together, and the import rules of the packages.
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
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/integration/programs"
)

// pkg is a package as printed by go list.
type pkg struct {
	ImportPath   string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

// floor returns the path within the module: "events/bus" for debrief/events/bus.
func (p *pkg) floor() string { return strings.TrimPrefix(p.ImportPath, "debrief/") }

// Import patterns.
const (
	ours   = "debrief/..."
	others = "*.*/..." // other modules
	client = "github.com/nats-io/nats.go/..."
	server = "github.com/nats-io/nats-server/..."
	openai = "github.com/sashabaranov/go-openai/..."
	docker = "github.com/testcontainers/..."
	flags  = "github.com/alecthomas/kong"
	shells = "mvdan.cc/sh/v3/syntax"
	promql = "github.com/prometheus/prometheus/..." // query language and engine, for a test
)

// plan lists the imports that are forbidden for packages. Packages import only lower layers, and not their siblings.
var plan = []struct {
	floor  string
	why    string
	except []string // allowed imports
	banned []string
}{
	{"playbook", "the domain is pure: standard library and its pure helpers", []string{"debrief/playbook/text"}, []string{others, ours}},
	{"playbook/text", "a pure helper: standard library only", nil, []string{others, ours}},
	{"playbook/...", "the domain does not know its users", []string{"debrief/playbook/..."}, []string{ours, client, openai, server}},
	{"playbook/admit", "admission is pure: the standard library and playbooks only", []string{"debrief/playbook", "debrief/playbook/similar", "debrief/playbook/text"}, []string{others, ours}},
	{"playbook/recall", "recall must not use NATS or events", nil, []string{client, server, "debrief/events/..."}},

	{"events", "the wire types may import playbook, redaction and the codec, but no transport", []string{"debrief/playbook", "debrief/playbook/text", "debrief/events/chat", "debrief/events/redact", "github.com/go-json-experiment/json/...", "github.com/vmihailenco/msgpack/..."}, []string{others, ours}},
	{"events/chat", "the types of conversations must not import their users", []string{"debrief/playbook/text"}, []string{ours, client, server, openai}},
	{"events/config", "the errors of configurations may import only the standard library", nil, []string{others, ours}},
	{"events/shell", "the parser of shell commands may import only the syntax of shells", []string{shells}, []string{others, ours}},
	{"events/outcome", "outcomes are read and compared without I/O", []string{"debrief/events", "debrief/events/shell", "debrief/playbook/text"}, []string{others, ours}},
	{"events/redact", "redaction may import only the standard library", nil, []string{others, ours}},
	{"events/bus", "the transport must not import roles", []string{"debrief/events", "debrief/events/blob", "debrief/events/erasure", "debrief/events/natserr", "debrief/events/streams", "debrief/events/direct", "debrief/events/redact", "debrief/playbook", "debrief/playbook/text"}, []string{ours, server, openai}},
	{"events/deltalog", "the log of playbooks knows the wire and the domain", []string{"debrief/events", "debrief/events/natserr", "debrief/events/direct", "debrief/playbook", "debrief/playbook/..."}, []string{ours, server, openai}},
	{"events/chat/openai", "the client of models knows the shape of a conversation", []string{"debrief/events/chat", "debrief/events/config", "debrief/playbook/text"}, []string{ours, client, server}},
	{"events/natserr", "the errors of the NATS client may import only the client", []string{"github.com/nats-io/nats.go/..."}, []string{others, ours}},
	{"events/blob", "payloads must not import their users", []string{"debrief/events", "debrief/events/direct", "debrief/events/natserr", "debrief/events/redact", "debrief/playbook/text"}, []string{ours, server, openai}},
	{"events/erasure", "erasures know the wire and must not import their users", []string{"debrief/events", "debrief/events/natserr", "debrief/events/direct", "debrief/playbook"}, []string{ours, server, openai}},
	{"events/streams", "the definition of the streams makes no requests", []string{"debrief/events", "debrief/events/blob", "debrief/events/config"}, []string{ours, server, openai}},
	{"events/direct", "direct reads and rewrites may import only the NATS client and its errors", []string{"debrief/events/natserr", "github.com/nats-io/nats.go/..."}, []string{others, ours}},
	{"events/window", "windows must not import their users", []string{"debrief/events", "debrief/events/natserr", "debrief/events/direct", "debrief/events/redact", "debrief/playbook"}, []string{ours, server, openai}},
	{"events/service", "the service must not import its backend", []string{"debrief/events", "debrief/events/bus", "debrief/events/erasure", "debrief/events/outcome", "debrief/events/redact", "debrief/playbook", "debrief/playbook/text"}, []string{ours, server, openai}},
	{"events/client", "the client knows the requests of the service, and neither the bus nor roles", []string{"debrief/events", "debrief/events/chat", "debrief/playbook"}, []string{ours, server, openai}},
	{"events/liveness", "liveness may import the transport, but no roles", []string{"debrief/events", "debrief/events/bus"}, []string{ours, server, openai}},
	{"events/schema", "the schemas know the types of all messages, but no roles", []string{"debrief/events", "debrief/events/chat", "debrief/events/liveness", "debrief/playbook", "github.com/google/jsonschema-go/..."}, []string{ours, client, server, openai}},
	{"events/natsd", "the embedded server may import only the errors of configurations and direct reads", []string{"debrief/events/config", "debrief/events/direct"}, []string{ours, openai}},

	{"generator/prompt/selection", "context parts must not use a transport", []string{"debrief/playbook", "debrief/playbook/admit", "debrief/playbook/text", "debrief/events", "debrief/events/chat", "debrief/events/config"}, []string{ours}},
	{"generator/prompt/conversation", "context parts must not use a transport", []string{"debrief/playbook/text", "debrief/events", "debrief/events/chat", "debrief/events/shell"}, []string{ours}},
	{"generator/prompt/assembly", "assembly must not use a transport", []string{"debrief/playbook", "debrief/playbook/text", "debrief/events", "debrief/events/chat", "debrief/events/config", "debrief/generator/..."}, []string{ours}},
	{"generator/scoring", "scoring may import only events and the interface of a model", []string{"debrief/events", "debrief/events/chat", "debrief/events/config", "debrief/events/outcome", "debrief/events/shell", "debrief/playbook/text"}, []string{ours}},
	{"generator/...", "a role must not import the NATS client, a model provider or another role", nil, []string{client, server, openai, "debrief/cmd/...", "debrief/events/natsd", "debrief/reflector/...", "debrief/curator/..."}},
	{"reflector/rules", "the analysis of runs does no I/O", []string{"debrief/events", "debrief/events/redact", "debrief/events/shell", "debrief/playbook/text"}, []string{others, ours}},
	{"reflector/...", "a role must not import the NATS client, a model provider or another role", nil, []string{client, server, openai, "debrief/cmd/...", "debrief/events/natsd", "debrief/generator/...", "debrief/curator/..."}},
	{"curator/gate", "the gate may import only playbook, the comparison of texts and the errors of configurations", []string{"debrief/events/config", "debrief/playbook", "debrief/playbook/similar"}, []string{ours}},
	{"curator/screen", "the checks of texts may import only playbook and redaction", []string{"debrief/playbook", "debrief/playbook/admit", "debrief/playbook/text", "debrief/events/redact"}, []string{ours}},
	{"curator/draft", "a draft uses no transport and no model", []string{"debrief/playbook", "debrief/playbook/admit", "debrief/playbook/history", "debrief/playbook/similar", "debrief/playbook/text", "debrief/events", "debrief/events/chat", "debrief/curator/gate", "debrief/curator/screen"}, []string{others, ours}},
	{"curator/propose", "proposals use no transport", []string{"debrief/playbook", "debrief/playbook/admit", "debrief/playbook/text", "debrief/playbook/history", "debrief/playbook/similar", "debrief/playbook/recall", "debrief/events", "debrief/events/chat", "debrief/events/redact", "debrief/curator/draft", "debrief/curator/gate", "debrief/curator/screen"}, []string{others, ours}},
	{"curator/...", "a role must not import the NATS client, a model provider or another role", nil, []string{client, server, openai, "debrief/cmd/...", "debrief/events/natsd", "debrief/generator/...", "debrief/reflector/..."}},

	{"cmd/internal/runs/modelapi", "the messages of model APIs need only a scanner of JSON, and the signs of outcomes", []string{"debrief/events/outcome", "github.com/go-json-experiment/json/jsontext"}, []string{others, ours}},
	{"cmd/internal/proxy/capture", "runs are assembled without the HTTP server of the gateway", []string{"debrief/cmd/internal/runs/modelapi", "debrief/cmd/internal/runs/steps", "debrief/events", "debrief/events/blob", "debrief/events/bus", "debrief/events/chat", "debrief/events/natserr", "debrief/events/direct", "debrief/events/outcome", "debrief/events/redact", "debrief/events/streams", "debrief/playbook", "debrief/playbook/text"}, []string{ours, server, openai}},
	{"cmd/internal/runs/source", "the reader of files knows no formats and no events", []string{"debrief/playbook/text"}, []string{ours, client, server, openai}},
	{"cmd/internal/runs/steps", "the steps of a run know no formats of recorders", []string{"debrief/cmd/internal/runs/modelapi", "debrief/cmd/internal/runs/source", "debrief/events", "debrief/events/chat", "debrief/events/outcome", "debrief/events/redact", "debrief/events/shell", "debrief/playbook/text"}, []string{others, ours}},
	{"cmd/internal/...", "programs share adapters, and workers do not link the server: only package cli imports it", []string{"debrief/events/natsd"}, []string{server, "debrief/cmd/debrief/...", "debrief/cmd/bench"}},
	{"cmd/internal/train/replay", "the engine of train knows no flags and no command line", nil, []string{"debrief/cmd/internal/program/cli", "debrief/cmd/internal/train"}},
	{"cmd/debrief/internal/books", "groups of commands do not use each other", nil, []string{"debrief/cmd/debrief/internal/ops", "debrief/cmd/internal/train", "debrief/events/natsd", server}},
	{"cmd/debrief/internal/ops", "groups of commands do not use each other", nil, []string{"debrief/cmd/debrief/internal/books"}},
	{"cmd/internal/program/cli", "commands use it, and it uses none", nil, []string{"debrief/cmd/internal/train"}},
}

func TestImportsFollowLayers(t *testing.T) {
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

// TestWorldsShareNoCode checks that worlds, and their tests, import only the standard library and each other. A world that
// used the product, or the simulated model of its demo, would measure the product by itself.
func TestWorldsShareNoCode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const worlds = "cmd/internal/simulated/worlds/..."
	found := false
	for _, p := range packages(t) {
		if !matches(worlds, p.floor()) {
			continue
		}
		found = true
		for _, imp := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if matchesAny([]string{others, ours}, imp) && !matches("debrief/"+worlds, imp) {
				t.Errorf("%s imports %s: want only the standard library and worlds", p.ImportPath, imp)
			}
		}
	}
	if !found {
		t.Errorf("no package matches %s", worlds)
	}
}

// rooms lists the rooms of cmd/internal, and for each the rooms whose packages it may import.
var rooms = map[string][]string{
	"runs":      nil,
	"simulated": nil,
	"operate":   {"program"},                                      // exit codes and output
	"program":   {"operate", "api"},                               // metrics and rights; package cli finds versions
	"api":       {"operate", "program", "proxy", "runs", "train"}, // train has the records of its runs; apiclient rates runs by the ids of package capture
	"train":     {"api", "console", "program", "runs", "simulated"},
	"console":   {"api", "operate", "program", "train"},
	"agents":    {"api", "program", "runs"},
	"proxy":     {"agents", "api", "console", "operate", "program", "runs"},
}

func roomOf(path string) string {
	inside, _ := strings.CutPrefix(path, "debrief/cmd/internal/")
	if inside == path {
		return ""
	}
	room, _, _ := strings.Cut(inside, "/")
	return room
}

func TestRoomsImportWhatTheyMay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, p := range packages(t) {
		room := roomOf(p.ImportPath)
		if room == "" {
			continue
		}
		allowed, ok := rooms[room]
		if !ok {
			t.Errorf("%s is in no room", p.ImportPath)
		}
		for _, imp := range p.Imports {
			if other := roomOf(imp); other != "" && other != room && !slices.Contains(allowed, other) {
				t.Errorf("%s imports %s: room %s may import only %q", p.ImportPath, imp, room, allowed)
			}
		}
	}
}

// TestRoomsDescribeThemselves checks that the doc.go of each room says what the room never does, and has the walk of its main
// value with files that exist.
func TestRoomsDescribeThemselves(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`(?m)^//\t([\w/]+\.go)\s`)
	for room := range rooms {
		dir := filepath.Join("../cmd/internal", room)
		text, err := os.ReadFile(filepath.Join(dir, "doc.go"))
		if err != nil {
			t.Error(err)
			continue
		}
		files := line.FindAllSubmatch(text, -1)
		if len(files) < 4 || !bytes.Contains(text, []byte(" never ")) || !bytes.Contains(text, []byte("# The walk of ")) {
			t.Errorf("%s/doc.go: want what the room never does, and a walk of at least four files, got %d", room, len(files))
		}
		for _, file := range files {
			names, err := filepath.Glob(filepath.Join(dir, string(file[1])))
			inside, err2 := filepath.Glob(filepath.Join(dir, "*", string(file[1]))) // the walk enters a package of the room
			if err != nil || err2 != nil || len(names)+len(inside) == 0 {
				t.Errorf("%s/doc.go names %s, which does not exist", room, file[1])
			}
		}
	}
}

// heavy lists dependencies that add many megabytes to a program and that a worker does not need.
var heavy = []string{server, docker, promql}

// TestWorkersLinkNoHeavyPackages checks all dependencies of the worker programs.
func TestWorkersLinkNoHeavyPackages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, p := range packages(t) {
		if !slices.Contains([]string{"cmd/generator", "cmd/reflector", "cmd/curator"}, p.floor()) {
			continue
		}
		for _, dep := range p.Deps {
			if matchesAny(heavy, dep) {
				t.Errorf("%s links %s", p.ImportPath, dep)
			}
		}
	}
}

func TestPackagesHaveDocumentation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for _, p := range packages(t) {
		if len(p.GoFiles) > 0 && p.Doc == "" { // go list prints no comment for a package with only tests
			t.Errorf("%s: package comment required", p.ImportPath)
		}
	}
}

// TestTopLevel checks that the top level of the repository has no other names.
func TestTopLevel(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("../.git"); errors.Is(err, fs.ErrNotExist) {
		t.Skip("not a git checkout")
	}
	given := strings.Fields("go.mod go.sum cmd generator reflector curator events playbook deploy integration README.md LICENSE")
	// safe.directory: the checkout may belong to another user.
	for _, file := range strings.Split(string(run(t, "git", "-c", "safe.directory=*", "ls-files", "-z")), "\x00") {
		top, _, _ := strings.Cut(file, "/")
		if file != "" && !strings.HasPrefix(top, ".") && !slices.Contains(given, top) {
			t.Errorf("%s: %s is not one of the names at the top level", file, top)
		}
	}
}

// TestMatches checks the matching of patterns, without which all rules would pass.
func TestMatches(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		pattern, path string
		want          bool
	}{
		{"playbook", "playbook", true},
		{"playbook", "playbook/recall", false},
		{"playbook/...", "playbook", true},
		{"playbook/...", "playbook/recall", true},
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

// matches reports whether a path equals the pattern, or is below it if the pattern ends in "/...". The pattern "*.*/..."
// matches every path whose first element contains a dot, which are the paths of other modules.
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

// packages returns all packages of the module.
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
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// watch makes the cached result of the test depend on every Go file of the module.
func watch(t *testing.T) {
	t.Helper()
	if err := programs.Watch(".."); err != nil {
		t.Fatal(err)
	}
}

// run returns the standard output of a command at the top of the module.
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

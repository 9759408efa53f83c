package integration

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"debrief/integration/programs"
)

// page is a Markdown file of the repository. The test runs its blocks of sh in order, in one shell, in a clean copy of the
// repository. A block of python, go or js is saved as the file that its first line names. A block after one of these
// comments is not run:
//
//	<!-- long: the reason -->
//	<!-- needs: the reason -->
type page struct {
	name   string // path in the repository
	text   string
	blocks []block
	prose  string // text without the blocks; the lines keep their numbers
}

// block is a fenced block of a page.
type block struct {
	line int    // of its first line of code
	lang string // after the fence
	skip string // the comment; empty if the block runs
	code string
}

var (
	skipMark  = regexp.MustCompile(`^<!-- (?:long|needs): \S.* -->$`)
	languages = []string{"sh", "python", "go", "js", "text"} // text is output
	fileName  = regexp.MustCompile(`^(?:#|//) ([\w.]+)\n`)
)

// parsePage splits a page into blocks and prose.
func parsePage(name, text string) (page, error) {
	p := page{name: name, text: text}
	var (
		prose []string
		open  *block
		skip  string
	)
	for i, line := range strings.Split(text, "\n") {
		fence, fenced := strings.CutPrefix(line, "```")
		switch {
		case open != nil && fenced:
			if slices.Contains([]string{"python", "go", "js"}, open.lang) && !fileName.MatchString(open.code) {
				return p, fmt.Errorf("%s:%d: block of %s: the first line must name its file", name, open.line, open.lang)
			}
			p.blocks = append(p.blocks, *open)
			open = nil
		case open != nil:
			open.code += line + "\n"
		case fenced && !slices.Contains(languages, fence):
			return p, fmt.Errorf("%s:%d: block of %q: want one of %v", name, i+1, fence, languages)
		case fenced:
			open = &block{line: i + 2, lang: fence, skip: skip}
		case strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t"):
			return p, fmt.Errorf("%s:%d: indented block: use a fence", name, i+1)
		default:
			skip = skipMark.FindString(line)
			prose = append(prose, line)
			continue
		}
		prose = append(prose, "")
		skip = ""
	}
	if open != nil {
		return p, fmt.Errorf("%s:%d: block without an end", name, open.line)
	}
	p.prose = strings.Join(prose, "\n")
	return p, nil
}

// readPages returns all pages of the repository.
func readPages(t *testing.T) (all []page) {
	t.Helper()
	for _, name := range repositoryFiles(t) {
		if filepath.Ext(name) != ".md" || strings.Contains(name, "testdata/") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		p, err := parsePage(name, string(text))
		if err != nil {
			t.Error(err)
		}
		all = append(all, p)
	}
	return all
}

// TestExamplesOfRunsPrintTheReason reads the examples of agents on the pages. An example that prints nothing of an outage teaches agents that fail
// silently.
func TestExamplesOfRunsPrintTheReason(t *testing.T) {
	t.Parallel()
	found := 0
	for _, p := range readPages(t) {
		for _, b := range p.blocks {
			if !strings.Contains(b.code, "run.messages") && !strings.Contains(b.code, "run.Messages") {
				continue
			}
			found++
			if !regexp.MustCompile(`(?m)(print|log|Print).*run\.[dD]egraded`).MatchString(b.code) {
				t.Errorf("%s:%d: prints no run.degraded", p.name, b.line)
			}
		}
	}
	if found < 3 {
		t.Errorf("got %d examples, want those for Python, JavaScript and Go", found)
	}
}

// repositoryFiles returns the paths of all files that are not ignored, also those that are not committed yet.
func repositoryFiles(t *testing.T) (all []string) {
	t.Helper()
	if _, err := os.Stat("../.git"); err != nil {
		t.Skip("not a git checkout")
	}
	// safe.directory: another user of the build machine may own the checkout.
	out := run(t, "git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	for _, name := range strings.Split(string(out), "\x00") {
		if _, err := os.Stat(filepath.Join("..", name)); err == nil && name != "" { // else it is deleted and not committed
			all = append(all, name)
		}
	}
	return all
}

// cloneRepository copies the files of the repository to a new directory.
func cloneRepository(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(checkouts, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range repositoryFiles(t) {
		from, to := filepath.Join("..", name), filepath.Join(dir, name)
		data, err := os.ReadFile(from)
		var info fs.FileInfo
		if err == nil {
			info, err = os.Stat(from)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(to), 0o755)
		}
		if err == nil {
			err = os.WriteFile(to, data, info.Mode())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// script returns the commands of a page for bash, and the number of blocks that it runs and skips. The addresses that
// programs listen on by default are replaced, because another program may use them.
func (p *page) script(t *testing.T) (script string, ran, skipped int) {
	t.Helper()
	nats, http, model := freeAddress(t), freeAddress(t), freeAddress(t)
	addresses := strings.NewReplacer("127.0.0.1:4222", nats, "127.0.0.1:4280", http, "127.0.0.1:8089", model,
		"debrief up --data \"$PWD/", "debrief up --data \"$PWD/", // its line has own addresses
		"debrief up", "debrief up --listen "+nats+" --http "+http)
	background := regexp.MustCompile(`(?m)^.*[^&]&(?: sleep \d+)?\n`)
	address := regexp.MustCompile(`127\.0\.0\.1:\d+`)
	awaitStart := func(line string) string { // a loaded machine can need longer than the sleep of the page
		for _, a := range address.FindAllString(line, -1) {
			line += fmt.Sprintf("until (: </dev/tcp/%s) 2>/dev/null; do kill -0 $!; sleep 0.1; done\n", strings.Replace(a, ":", "/", 1))
		}
		return line
	}
	s := new(strings.Builder)
	fmt.Fprintln(s, "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true; wait' EXIT")
	for _, b := range p.blocks {
		if b.lang == "text" {
			continue
		}
		if b.skip != "" || !hasTools(t, p, b) {
			skipped++
			continue
		}
		ran++
		fmt.Fprintf(s, "echo '==> %s:%d'\n", p.name, b.line)
		code := addresses.Replace(b.code)
		if b.lang != "sh" {
			fmt.Fprintf(s, "cat >%s <<'END_OF_FILE'\n%sEND_OF_FILE\n", fileName.FindStringSubmatch(code)[1], code)
			continue
		}
		fmt.Fprint(s, background.ReplaceAllStringFunc(code, awaitStart))
	}
	return s.String(), ran, skipped
}

// hasTools reports whether the machine has the tools of a block that Debrief itself does not need.
func hasTools(t *testing.T, p *page, b block) bool {
	t.Helper()
	for _, tool := range []string{"python3", "curl", "node"} {
		if _, err := exec.LookPath(tool); err != nil && strings.Contains(b.code, tool+" ") {
			t.Logf("%s:%d: not run: %v", p.name, b.line, err)
			return false
		}
	}
	return true
}

// TestPages runs the commands of each page.
func TestPages(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts the programs: run without -short")
	}
	t.Parallel()
	for _, p := range readPages(t) {
		if p.name == "cmd/debrief/README.md" && !strings.Contains(p.text, programs.Command) {
			t.Errorf("%s: the command to build the programs is missing: %s", p.name, programs.Command)
		}
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			script, ran, skipped := p.script(t)
			if ran == 0 {
				t.Skip("no commands")
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
			cmd.Dir = cloneRepository(t)
			addPrograms(t, cmd.Dir)
			cmd.Env = pageEnvironment(t)
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // bash ends its background jobs
			cmd.WaitDelay = 30 * time.Second
			killWithParent(cmd)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			began := time.Now()
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v\n%s", err, tail(out.String(), 40))
			}
			t.Logf("%d blocks in %.0f s, %d not run", ran, time.Since(began).Seconds(), skipped)
		})
	}
}

// addPrograms links the built programs into bin/, where the pages build them. Then 'go build' compiles and checks them as
// usual, and only skips the link of the programs that are up to date: with the flags of pageEnvironment, all.
func addPrograms(t *testing.T, dir string) {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	built, err := os.ReadDir(binaries)
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "bin"), 0o755)
	}
	for _, p := range built {
		err = errors.Join(err, programs.Link(filepath.Join(binaries, p.Name()), filepath.Join(dir, "bin", p.Name())))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// pageEnvironment returns the environment of a reader without settings of Debrief. It has a new home directory, and the
// build cache of this machine: -trimpath makes its entries independent of the directory, and programs are built without
// cgo and debug information, as in TestMain.
func pageEnvironment(t *testing.T) (env []string) {
	t.Helper()
	for _, v := range os.Environ() {
		if !regexp.MustCompile(`^(DEBRIEF|OPENAI|NATS|OTEL)_`).MatchString(v) {
			env = append(env, v)
		}
	}
	env = append(env, "HOME="+t.TempDir(), "TMPDIR="+t.TempDir(), "CGO_ENABLED=0", "GOFLAGS=-trimpath -buildvcs=false '-ldflags=-s -w'")
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOTOOLCHAIN"} {
		env = append(env, name+"="+strings.TrimSpace(string(run(t, "go", "env", name))))
	}
	return env
}

// TestScriptAwaitsPrograms checks that the commands after the start of a program run only when it listens, also if they are in the same block.
func TestScriptAwaitsPrograms(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"debrief up & sleep 5", `debrief up --data "$PWD/data" --listen none --http 127.0.0.1:4281 & sleep 5`, "debrief up --http 127.0.0.1:4281 &"} {
		p, err := parsePage("p.md", "```sh\n"+command+"\necho next\n```\n")
		if err != nil {
			t.Fatal(err)
		}
		script, _, _ := p.script(t)
		start, wait, next := strings.Index(script, "debrief up"), strings.Index(script, "until (: </dev/tcp/127.0.0.1/"), strings.Index(script, "echo next")
		if start < 0 || wait < start || next < wait {
			t.Errorf("%s: got no wait between the program and the next command:\n%s", command, script)
		}
	}
}

// TestParsePage checks that no command of a page is overlooked.
func TestParsePage(t *testing.T) {
	t.Parallel()
	p, err := parsePage("p.md", "# P\n```sh\necho 1\n```\n<!-- long: an hour -->\n```sh\necho 2\n```\ntext\n```text\n3\n```\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []block{{3, "sh", "", "echo 1\n"}, {7, "sh", "<!-- long: an hour -->", "echo 2\n"}, {11, "text", "", "3\n"}}
	if !slices.Equal(p.blocks, want) {
		t.Errorf("got %v, want %v", p.blocks, want)
	}
	for name, text := range map[string]string{
		"a block without a language": "```\necho 1\n```\n",
		"a program without a name":   "```go\npackage main\n```\n",
		"an indented block":          "text\n\n    echo 1\n",
		"a block without an end":     "```sh\necho 1\n",
	} {
		if _, err := parsePage("p.md", text); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if p, _ := parsePage("p.md", "<!-- long: an hour -->\ntext\n```sh\necho 1\n```\n"); p.blocks[0].skip != "" {
		t.Errorf("a comment that is not beside the block: got %q, want none", p.blocks[0].skip)
	}
}

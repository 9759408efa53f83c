package integration

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPagesNameWhatExists checks the commands that no test runs: blocks with a mark, inline code, and 'go test' in
// comments of Go files. It also checks the links and paths of the pages.
func TestPagesNameWhatExists(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the programs: run without -short")
	}
	t.Parallel()
	c := checker{bin: filepath.Dir(program(t, "debrief"))}
	for _, p := range readPages(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range p.blocks {
				if b.skip == "" || b.lang != "sh" {
					continue
				}
				for i, line := range strings.Split(strings.ReplaceAll(b.code, "\\\n", "  "), "\n") {
					if err := c.command(line); err != nil {
						t.Errorf("%s:%d: %v", p.name, b.line+i, err)
					}
				}
			}
			for text, line := range p.inlineCode() {
				if err := errors.Join(c.command(text), checkPath(text)); err != nil {
					t.Errorf("%s:%d: %v", p.name, line, err)
				}
			}
			for _, err := range slices.Concat(p.brokenLinks(), p.unknownIdentifiers()) {
				t.Error(err)
			}
		})
	}
	for _, name := range repositoryFiles(t) {
		if filepath.Ext(name) != ".go" {
			continue
		}
		source, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, comment := range regexp.MustCompile(`(?m)^\s*//.*\b(go test \./[^.\n]*)`).FindAllSubmatch(source, -1) {
			if err := c.command(string(comment[1])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestCheckerFindsMistakes checks the checker.
func TestCheckerFindsMistakes(t *testing.T) {
	t.Parallel()
	c := checker{bin: filepath.Dir(program(t, "debrief"))}
	for _, text := range []string{
		"debrief playbok log", "debrief status --jsn", "curator --batchs 3", "DEBRIEF_DATADIR=here debrief status", "debrief playbook gate --of …",
		"go run ./cmd/debrief demoo", "go test ./integration -run TestNoSuchThing", "go doc ./event", "deploy/compose debrief statis", "FOO=1 debrief status | debrief statsu",
	} {
		if c.command(text) == nil {
			t.Errorf("%s: got no error", text)
		}
	}
	if checkPath("cmd/nothing/") == nil {
		t.Error("cmd/nothing/: got no error")
	}
	p, err := parsePage("README.md", "[a](nothing.md) [b](#nothing) [c](https://example.com) `playbook/operation.go` `OpKind` `NoSuchName`")
	if links, names := len(p.brokenLinks()), len(p.unknownIdentifiers()); err != nil || links != 2 || names != 1 {
		t.Errorf("got %d broken links, %d unknown identifiers and %v, want 2 and 1", links, names, err)
	}
}

// inlineCode returns the inline code of a page with the line of each.
func (p *page) inlineCode() map[string]int {
	all := map[string]int{}
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatchIndex(p.prose, -1) {
		text := strings.Join(strings.Fields(strings.ReplaceAll(p.prose[m[2]:m[3]], `\|`, "|")), " ")
		all[text] = 1 + strings.Count(p.prose[:m[0]], "\n")
	}
	return all
}

// checkPath returns an error if code is a path of the repository that does not exist.
func checkPath(code string) error {
	if !regexp.MustCompile(`^(\.github|\.ci|cmd|deploy|events|generator|reflector|curator|playbook|integration)/[\w./-]+$`).MatchString(code) {
		return nil
	}
	if strings.HasPrefix(code, "deploy/secrets/") { // 'debrief credentials' creates it
		return nil
	}
	_, err := os.Stat(filepath.Join("..", strings.TrimSuffix(code, "/...")))
	return err
}

// brokenLinks returns an error for each link to a missing file or heading.
func (p *page) brokenLinks() (errs []error) {
	for _, m := range regexp.MustCompile(`\]\(([^)\s]+)\)`).FindAllStringSubmatch(p.prose, -1) {
		path, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(m[1], "://") {
			continue
		}
		text := p.text
		if path != "" {
			file := filepath.Join("..", filepath.Dir(p.name), path)
			data, err := os.ReadFile(file)
			if info, statErr := os.Stat(file); err != nil && (statErr != nil || !info.IsDir()) {
				errs = append(errs, fmt.Errorf("%s: link %s: %w", p.name, m[1], err))
				continue
			}
			text = string(data)
		}
		if anchor != "" && !slices.Contains(anchors(text), anchor) {
			errs = append(errs, fmt.Errorf("%s: link %s: no such heading", p.name, m[1]))
		}
	}
	return errs
}

// unknownIdentifiers returns an error for each identifier on a line with paths of Go files that is in none of them.
func (p *page) unknownIdentifiers() (errs []error) {
	for i, line := range strings.Split(p.prose, "\n") {
		var source, names []string
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
			if data, err := os.ReadFile(filepath.Join("..", m[1])); err == nil && strings.HasSuffix(m[1], ".go") {
				source = append(source, string(data))
			} else if regexp.MustCompile(`^[A-Za-z]\w+$`).MatchString(m[1]) {
				names = append(names, m[1])
			}
		}
		for _, name := range names {
			if known := regexp.MustCompile(`\b` + name + `\b`).MatchString(strings.Join(source, "\n")); len(source) > 0 && !known {
				errs = append(errs, fmt.Errorf("%s:%d: %s is not in the files of the line", p.name, i+1, name))
			}
		}
	}
	return errs
}

// anchors returns the names of the headings of a page, as GitHub makes them.
func anchors(text string) (all []string) {
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		name := regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}

// checker checks commands without running them.
type checker struct{ bin string }

var checkedPrograms = []string{"debrief", "generator", "reflector", "curator", "gateway", "bench"}

// command checks each part of a shell command: the names of programs, subcommands, flags, settings, packages and tests.
// It accepts all other programs. An ellipsis ends the part that is checked.
func (c checker) command(text string) error {
	text, _, _ = strings.Cut(text, "…")
	text = regexp.MustCompile(`(^| )#.*$`).ReplaceAllString(text, "")
	var errs []error
	for _, args := range parts(text) {
		n := slices.IndexFunc(args, func(w string) bool { return !regexp.MustCompile(`^[A-Z_]+=`).MatchString(w) })
		if n < 0 {
			continue
		}
		settings, args := args[:n], args[n:]
		args[0] = strings.TrimPrefix(args[0], "bin/")
		switch {
		case len(args) > 2 && args[0] == "go" && args[1] == "run" && strings.HasPrefix(args[2], "./cmd/"):
			args = append([]string{strings.TrimPrefix(args[2], "./cmd/")}, args[3:]...)
		case len(args) > 1 && args[0] == "deploy/compose" && args[1] == "debrief":
			args = args[1:]
		}
		switch {
		case slices.Contains(checkedPrograms, args[0]) && len(args) > 1:
			errs = append(errs, c.arguments(settings, args))
		case args[0] == "go":
			errs = append(errs, checkGo(args))
		}
	}
	return errors.Join(errs...)
}

var shellToken = regexp.MustCompile(`(?:'[^']*'|"[^"]*"|[^\s|&;()'"])+|[|&;()]`)

// parts returns the words of each simple command, without quotes.
func parts(text string) (all [][]string) {
	all = [][]string{nil}
	for _, token := range shellToken.FindAllString(text, -1) {
		if strings.ContainsAny(token[:1], "|&;()") {
			all = append(all, nil)
			continue
		}
		last := &all[len(all)-1]
		*last = append(*last, strings.NewReplacer(`'`, "", `"`, "").Replace(token))
	}
	return all
}

// arguments checks the arguments of one of our programs. They may be the beginning of a command line.
func (c checker) arguments(settings, args []string) error {
	whole := append(slices.Clone(args), "--show-config")
	out, err := c.run(settings, whole)
	if err == nil || strings.Contains(out, "no such file") {
		return nil
	}
	name := args[:1]
	for _, arg := range args[1:] { // the command without its arguments
		if !regexp.MustCompile(`^[a-z]+$`).MatchString(arg) {
			break
		}
		if _, err := c.run(nil, append(slices.Clone(name), arg, "--help")); err != nil {
			break
		}
		name = append(slices.Clone(name), arg)
	}
	help, helpErr := c.run(nil, append(slices.Clone(name), "--help"))
	complete := len(name) > 1 && !strings.Contains(out, "unexpected argument") && !strings.Contains(out, "no such setting") && !strings.Contains(out, "unknown environment")
	for _, arg := range args[len(name):] {
		if flag, _, _ := strings.Cut(arg, "="); strings.HasPrefix(flag, "-") {
			complete = complete && regexp.MustCompile(regexp.QuoteMeta(flag)+`\b`).MatchString(help)
		}
	}
	if helpErr == nil && complete {
		return nil
	}
	return fmt.Errorf("%s: %s", strings.Join(args, " "), tail(out, 3))
}

func (c checker) run(settings, args []string) (string, error) {
	cmd := exec.Command(filepath.Join(c.bin, args[0]), args[1:]...)
	cmd.Env = append([]string{"HOME=" + c.bin, "OPENAI_API_KEY=key"}, settings...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// checkGo returns an error if a package, test or benchmark does not exist.
func checkGo(args []string) error {
	var tests []byte
	var names []*regexp.Regexp
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, "./") && !strings.Contains(arg, "..."):
			files, err := filepath.Glob(filepath.Join("..", arg, "*.go"))
			if err != nil || len(files) == 0 {
				return fmt.Errorf("%s: no package %s", strings.Join(args, " "), arg)
			}
			for _, file := range files {
				if data, err := os.ReadFile(file); err == nil && strings.HasSuffix(file, "_test.go") {
					tests = append(tests, data...)
				}
			}
		case (args[i-min(i, 1)] == "-run" || args[i-min(i, 1)] == "-bench") && arg != "xxx" && arg != ".":
			for name := range strings.SplitSeq(strings.Trim(arg, "^$"), "|") {
				names = append(names, regexp.MustCompile(`(?m)^func (?:Test|Benchmark|Example|Fuzz)\w*`+regexp.MustCompile(`^(Test|Benchmark|Example|Fuzz)`).ReplaceAllString(name, "")))
			}
		}
	}
	for _, name := range names {
		if !name.Match(tests) {
			return fmt.Errorf("%s: no test matches %s", strings.Join(args, " "), name)
		}
	}
	return nil
}

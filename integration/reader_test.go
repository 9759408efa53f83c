package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// workplace is what readers of pages find when they come to a command: the built programs, a model, a server with the roles on
// which the demo's playbook is, the demo's directory, and a server with TLS and users.
type workplace struct {
	model  string // base URL of the simulated model
	nats   string
	http   string // address of the door for agents
	demo   string // directory that 'debrief demo --data' made
	book   string // the demo's
	bullet string // of that book
	run    string // handle of an execution of it, in a session
	tls    *secured
}

// setUp starts all of it.
func setUp(t *testing.T) *workplace {
	t.Helper()
	w := &workplace{model: startModel(t, 0), demo: filepath.Join(t.TempDir(), "demo-data"), http: freeAddress(t), tls: secure(t, "debrief")}
	w.tls.setUp("debrief")
	r := w.reader(t, "")
	said := r.must("debrief demo --data " + w.demo)
	w.book = found(t, `--book (demo-\S+)`, said)

	dir, listen, health := filepath.Join(t.TempDir(), "up"), freeAddress(t), freeAddress(t)
	if err := os.CopyFS(dir, os.DirFS(w.demo)); err != nil {
		t.Fatal(err)
	}
	start(t, "up", func() *exec.Cmd {
		cmd := r.shell("exec debrief up --simulated --data " + dir)
		cmd.Env = append(cmd.Env, "DEBRIEF_LISTEN="+listen, "DEBRIEF_HTTP="+w.http, "DEBRIEF_HEALTH="+health)
		return cmd
	})
	awaitReady(t, health)
	w.nats = "nats://" + listen
	r.env = append(r.env, "DEBRIEF_NATS="+w.nats, "DEBRIEF_BOOK="+w.book)
	w.bullet = found(t, `([a-z]+-\d{5})`, r.must("debrief playbook show"))
	w.run = found(t, `(\d+-[0-9a-f]{8})`, r.must("debrief submit --wait 'What is 6 x 7?' --target 42 --session desk-7"))
	return w
}

func found(t *testing.T, pattern, in string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(in)
	if m == nil {
		t.Fatalf("%s: is not in %s", pattern, tail(in, 10))
	}
	return m[1]
}

// reader does what a section of a page says, in a directory of its own that looks like the top of the repository after a
// build.
type reader struct {
	t     *testing.T
	place *workplace
	dir   string
	env   []string
	said  string // what commands so far printed
}

// reader begins a section.
func (w *workplace) reader(t *testing.T, section string) *reader {
	t.Helper()
	r := &reader{t: t, place: w, dir: t.TempDir()}
	r.env = append(r.env, "PATH="+binaries+string(filepath.ListSeparator)+os.Getenv("PATH"), "HOME="+r.dir, "TMPDIR="+t.TempDir(),
		"OPENAI_BASE_URL="+w.model, "DEBRIEF_EPOCHS=1", "DEBRIEF_TRAIN=40", "DEBRIEF_HELD_OUT=20")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Mkdir(filepath.Join(r.dir, "bin"), 0o700))
	for _, name := range []string{"debrief", "generator", "reflector", "curator"} {
		must(os.Symlink(program(t, name), filepath.Join(r.dir, "bin", name)))
	}
	must(os.CopyFS(filepath.Join(r.dir, "deploy"), os.DirFS("../deploy")))
	must(os.RemoveAll(filepath.Join(r.dir, "deploy", "secrets"))) // whoever works here may have some
	if prepare := scenes[section]; prepare != nil {
		prepare(r)
	}
	return r
}

// write writes a file that a command wants.
func (r *reader) write(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// shell is a command as a shell runs it. Its roles' settings are those of the section: a worker takes no other.
func (r *reader) shell(text string) *exec.Cmd {
	cmd := exec.CommandContext(r.t.Context(), "bash", "-c", text)
	cmd.Dir = r.dir
	worker := regexp.MustCompile(`^(exec env )?(bin/)?(generator|reflector|curator) `).MatchString(text)
	for _, v := range r.env {
		if !worker || !strings.HasPrefix(v, "DEBRIEF_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	leash(cmd)
	return cmd
}

// must runs a command of the test's own.
func (r *reader) must(text string) string {
	r.t.Helper()
	out, err := r.shell(text).CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", text, err, tail(string(out), 10))
	}
	return string(out)
}

// translate puts what is there in the place of what the page names.
func (r *reader) translate(text string) string {
	for _, s := range samples {
		if strings.Contains(text, s.text) {
			text = strings.ReplaceAll(text, s.text, s.real(r))
		}
	}
	return text
}

// serves tells a command that goes on until it is told to stop.
var serves = regexp.MustCompile(`^([A-Z_]+=\S* )*(debrief up|(bin/)?(generator|reflector|curator)) `)

// run runs a command to its end, which must be a good one.
func (r *reader) run(text string) error {
	text = r.translate(text)
	if serves.MatchString(text + " ") {
		return r.serve(text)
	}
	cmd := r.shell(text)
	if strings.HasPrefix(text, "go ") {
		cmd.Dir, cmd.Env = "..", os.Environ()
	}
	out, err := cmd.CombinedOutput()
	r.said += string(out)
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", text, err, tail(string(out), 10))
	}
	return nil
}

// serve runs a program that goes on: it must come up, and end well when it is interrupted.
func (r *reader) serve(text string) error {
	health := freeAddress(r.t)
	cmd := r.shell("exec env " + text) // no shell in between, which would not pass the interrupt on
	cmd.Env = append(cmd.Env, "DEBRIEF_HEALTH="+health)
	if strings.Contains(text, "debrief up") {
		cmd.Env = append(cmd.Env, "DEBRIEF_LISTEN=127.0.0.1:0", "DEBRIEF_HTTP=127.0.0.1:0")
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return err
	}
	late, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	ctx, ended := context.WithCancel(late)
	defer ended()
	end := make(chan error, 1)
	go func() {
		end <- cmd.Wait()
		ended()
	}()
	for ctx.Err() == nil && ready(health) != nil {
		time.Sleep(20 * time.Millisecond)
	}
	up := ctx.Err() == nil
	if up {
		_ = cmd.Process.Signal(os.Interrupt) // it may be over
	} else {
		_ = cmd.Process.Kill()
	}
	if err := <-end; !up || err != nil {
		return fmt.Errorf("%s: came up: %t, end: %v\n%s", text, up, err, tail(out.String(), 10))
	}
	return nil
}

// understand reports what is wrong with a command, without running it: shell, programs, subcommands, flags, settings,
// files of this repository, names of tests.
func (r *reader) understand(text string) error {
	text = r.translate(text)
	parts, _ := simple(text)
	errs := []error{r.try("bash -n -c '" + strings.ReplaceAll(text, "'", `'\''`) + "'")}
	for _, part := range parts {
		errs = append(errs, r.understandPart(part))
	}
	for _, path := range regexp.MustCompile(`\bdeploy/[\w./-]+`).FindAllString(text, -1) {
		if _, err := os.Stat(filepath.Join("..", path)); err != nil && !strings.HasPrefix(path, "deploy/secrets/") {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// try runs a command of which nothing but its success is of interest.
func (r *reader) try(text string) error {
	out, err := r.shell(text).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", text, err, tail(string(out), 5))
	}
	return nil
}

func (r *reader) understandPart(text string) error {
	settings := regexp.MustCompile(`^([A-Z_]+=\S* )*`).FindString(text)
	name, rest, _ := strings.Cut(strings.TrimPrefix(text, settings), " ")
	switch name = strings.TrimPrefix(name, "bin/"); name {
	case "debrief":
		return r.try(settings + "debrief config " + strings.TrimPrefix(rest, "config "))
	case "generator", "reflector", "curator":
		return r.try(name + " " + rest + " --show-config")
	case "go":
		return understandGo(rest)
	case "deploy/compose":
		if args, ok := strings.CutPrefix(rest, "debrief "); ok {
			return r.try("debrief config " + args)
		}
		return nil
	case "for", "cd", "cat", "zcat", "wc", "jq", "grep", "curl", "kubectl", "docker", "docker-compose", "kustomize":
		return nil
	default:
		return fmt.Errorf("%s: nothing is known of %s", text, name)
	}
}

// understandGo reports what is wrong with the arguments of go: packages and tests that are not there.
func understandGo(args string) error {
	words := strings.Fields(strings.ReplaceAll(args, "'", ""))
	var dirs []string
	var names []*regexp.Regexp
	for i, w := range words {
		switch {
		case strings.HasPrefix(w, "./") && !strings.HasSuffix(w, "..."):
			dirs = append(dirs, filepath.Join("..", w))
		case i > 0 && (words[i-1] == "-run" || words[i-1] == "-bench") && w != "xxx" && w != ".":
			for _, name := range strings.Split(w, "|") {
				names = append(names, regexp.MustCompile(`(?m)^func (Test|Benchmark)\w*`+strings.TrimPrefix(strings.TrimPrefix(name, "Test"), "Benchmark")))
			}
		}
	}
	var tests []byte
	for _, dir := range dirs {
		all, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(all) == 0 {
			return fmt.Errorf("go %s: %s is no package", args, dir)
		}
		for _, file := range all {
			if data, err := os.ReadFile(file); err == nil && strings.HasSuffix(file, "_test.go") {
				tests = append(tests, data...)
			}
		}
	}
	for _, name := range names {
		if !name.Match(tests) {
			return fmt.Errorf("go %s: there is no %s", args, name)
		}
	}
	return nil
}

// mentioned reports what is wrong with a command in a sentence, which may be the beginning of one: a program, subcommand
// or flag that is not there.
func (r *reader) mentioned(text string) error {
	text, _, _ = strings.Cut(text, "…")
	words := strings.Fields(text)
	name := strings.TrimPrefix(words[0], "bin/")
	switch name {
	case "debrief", "generator", "reflector", "curator":
		if r.understand(text) == nil {
			return nil
		}
	case "go":
		if words[1] == "doc" {
			return r.run(text)
		}
		return r.understand(text)
	default:
		return r.understand(text)
	}
	commands, flags := []string{name}, []string{}
	args := false
	for _, w := range words[1:] {
		switch flag, _, _ := strings.Cut(w, "="); {
		case strings.HasPrefix(w, "-"):
			flags, args = append(flags, flag), true
		case args || !regexp.MustCompile(`^[a-z|]+$`).MatchString(w):
			args = true
		default:
			var longer []string
			for _, before := range commands {
				for _, one := range strings.Split(w, "|") {
					longer = append(longer, before+" "+one)
				}
			}
			commands = longer
		}
	}
	for _, command := range commands {
		help, err := r.shell(command + " --help").CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s: %w: %s", command, err, tail(string(help), 3))
		}
		for _, flag := range flags {
			if !bytes.Contains(help, []byte(flag)) {
				return fmt.Errorf("%s: has no flag %s", command, flag)
			}
		}
	}
	return nil
}

// operator are the files of the server with TLS, where the page has them.
func (r *reader) operator() {
	r.t.Helper()
	if err := os.Symlink(filepath.Join(r.place.tls.dir, "secrets"), filepath.Join(r.dir, "deploy", "secrets")); err != nil {
		r.t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.dir, "deploy", "secrets", "debrief", events.UserOperator+".nk")); err != nil {
		r.t.Fatal(err)
	}
}

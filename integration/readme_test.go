package integration

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// samples are what pages show in place of what only a reader can know, and how to find that.
var samples = []struct {
	text string
	real func(*reader) string
}{
	{"go run ./cmd/debrief", func(*reader) string { return "debrief" }},
	{"OPENAI_API_KEY=…", func(*reader) string { return "OPENAI_API_KEY=key" }},
	{"http://127.0.0.1:11434/v1", func(r *reader) string { return r.place.model }},
	{"nats://host:4222", func(r *reader) string { return r.place.nats }},
	{"tls://localhost:4222", func(r *reader) string { return r.place.tls.url }},
	{"http://127.0.0.1:4280/", func(r *reader) string { return "http://" + r.place.http + "/" }},
	{"curl -s ", func(*reader) string { return "curl -sS --fail-with-body " }}, // else a refusal is a success
	{`"min_version": 17`, func(*reader) string { return `"min_version": 0` }},
	{`"steps": […]`, func(*reader) string { return `"steps": []` }},
	{"n1Ssl4rO1aBTtCpPnTCXTg", func(r *reader) string { return found(r.t, `"context_id":"([^"]+)"`, r.said) }},
	{"1003-824a105a", func(r *reader) string {
		if strings.Contains(r.said, `"handle"`) {
			return found(r.t, `"handle":"([^"]+)"`, r.said)
		}
		return r.place.run
	}},
	{"2401-1e51897c", func(r *reader) string { return r.place.run }},
	{"cf-00011", func(r *reader) string { return r.place.bullet }},
	{"shr-00003", func(r *reader) string { return r.place.bullet }},
	{"deploy/mine.yaml", func(*reader) string { return "deploy/compose.yaml" }},
	{"--book RUN", func(r *reader) string { return "--book " + found(r.t, `The playbook is "([^"]+)"`, r.said) }},
}

// scenes are what a section says, or has said before, that is there; by its heading.
var scenes = map[string]func(*reader){
	"What is learned, and whether to believe it": onServer,
	"What the model sees":                        onServer,
	"With a real model":                          onServer,
	"The playbook as a log": func(r *reader) {
		r.t.Helper()
		if err := os.CopyFS(filepath.Join(r.dir, "demo-data"), os.DirFS(r.place.demo)); err != nil {
			r.t.Fatal(err)
		}
		r.env = append(r.env, "DEBRIEF_DATA_DIR=demo-data", "DEBRIEF_BOOK="+r.place.book)
	},
	"Learn from runs you have": func(r *reader) {
		r.write("results.json", `[{"task_id": 1, "reward": 0, "traj": [{"role": "user", "content": "cancel it"},`+
			`{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "function": {"name": "cancel", "arguments": "{}"}}]},`+
			`{"role": "tool", "tool_call_id": "c1", "name": "cancel", "content": "Error: no such order"}]}]`)
		r.write("runs/one.traj", `{"trajectory": [{"action": "ls\n", "observation": "a.go\n", "response": "look", "thought": "look"}],`+
			`"history": [{"role": "user", "content": "mend a.go"}], "info": {"exit_status": "submitted"}}`)
		r.write("sessions/one.jsonl", `{"question": "ship 1", "answer": "a", "outcome": "success", "steps": []}`+"\n")
	},
	"Secrets and TLS": (*reader).operator,
	"Tenants":         (*reader).operator,
	"Kubernetes":      (*reader).operator,
}

// onServer has the commands of a section find the server that 'debrief up' runs, as they do on the address that it takes
// by itself, which tests leave alone.
func onServer(r *reader) {
	r.env = append(r.env, "DEBRIEF_NATS="+r.place.nats, "DEBRIEF_BOOK="+r.place.book)
}

// onlyRead are the commands of blocks that are not run here, and why. They are understood all the same: programs, flags,
// settings, files and tests that they name must be there.
var onlyRead = map[string]string{
	"go test ./...": "runs this",
	readmeBuild:     "has built the programs that run here",
	"CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags='-s -w' -o bin/ ./cmd/... github.com/nats-io/nats-server/v2":                            "the tests of deploy build so",
	"DEBRIEF_LONG=1 go test ./integration -v -timeout 20m -run TestAClusterLosesServers | grep FAULT":                                             "takes ten minutes",
	"DEBRIEF_LONG=1 go test ./integration -v -timeout 60m -run 'Fails|Die|CountsOnce|PowerLoss|Killed|Outlives|Pause|Memory|Poison' | grep FAULT": "takes twenty minutes",
	"DEBRIEF_LONG=1 go test ./integration -v -timeout 30m -run AMillion | grep MEMORY":                                                            "takes a quarter of an hour",
	"DEBRIEF_LONG=1 go test ./integration -v -timeout 30m -run TestNoDamageIsSilent | grep DAMAGE":                                                "takes minutes",
	"DEBRIEF_LONG=1 go test ./integration -run NothingIsLostWhenTheServerDies -v -timeout 30m":                                                    "takes ten minutes",
	"DEBRIEF_LONG=1 go test ./integration -run TestSpeedOfSeparateWorkers -v -timeout 30m | grep SPEED":                                           "takes minutes",
	"DEBRIEF_LONG=1 go test ./integration -run TestMixedLoadUnderKills -v -timeout 60m":                                                           "takes half an hour",
	"DEBRIEF_LONG=1 go test ./integration -v -timeout 30m -run WhatAReplay | grep MEMORY":                                                         "takes minutes",

	"deploy/compose up":                                            "TestComposeRunsToAnAppliedDelta of deploy runs it, where there is an engine",
	"deploy/compose build":                                         "TestComposeRunsToAnAppliedDelta runs that as part of 'up'",
	"deploy/compose debrief status":                                "wants the stack; the script runs it at the end of 'up'",
	"deploy/compose debrief playbook show":                         "wants the stack; the script runs it at the end of 'up'",
	"deploy/compose up -d --scale reflector=5":                     "wants the stack",
	"deploy/compose logs --tail 20 reflector":                      "wants the stack",
	"deploy/compose down":                                          "wants the stack",
	"DEBRIEF_MODEL=gpt-4o-mini OPENAI_API_KEY=… deploy/compose up": "wants a model of OpenAI's",
	"DEBRIEF_MODEL=llama3 DEBRIEF_BASE_URL=http://host.docker.internal:11434/v1 deploy/compose up":        "wants a model on this machine",
	"docker-compose -p debrief -f deploy/compose.yaml up -d --build":                                      "the script does that",
	`for image in nats debrief generator reflector curator; do docker push "$REGISTRY/$image:$TAG"; done`: "wants a registry",
	`(cd deploy/kubernetes/components/images && kustomize edit set image debrief/nats="$REGISTRY/nats:$TAG" debrief/debrief="$REGISTRY/debrief:$TAG" ` +
		`debrief/generator="$REGISTRY/generator:$TAG" debrief/reflector="$REGISTRY/reflector:$TAG" debrief/curator="$REGISTRY/curator:$TAG")`: "wants kustomize, and changes a file",
	"kubectl apply -k deploy/kubernetes/base":                                                                                        "wants a cluster",
	"kubectl -n debrief wait --for=condition=complete job/setup --timeout=5m":                                                        "wants a cluster",
	"kubectl apply -k deploy/kubernetes/overlays/one-node":                                                                           "wants a cluster",
	"kubectl -n debrief port-forward service/nats 4222 &":                                                                            "wants a cluster",
	`bin/debrief submit --wait "…" --nats tls://localhost:4222 --ca deploy/secrets/ca.pem --nkey deploy/secrets/debrief/operator.nk`: "wants a cluster",
}

// TestEveryCommandOfThePages follows the pages: it runs every command of their blocks, section by section, as a reader
// would, and understands those that a sentence mentions.
func TestEveryCommandOfThePages(t *testing.T) {
	t.Parallel()
	var all []example
	for _, p := range pages(t) {
		all = append(all, p.commands()...)
	}
	if len(all) < 50 {
		t.Fatalf("found %d commands", len(all))
	}
	for _, unused := range unusedTables(all) {
		t.Errorf("%s: is on no page", unused)
	}
	w := setUp(t)
	ran, read, mentioned := 0, 0, map[string]bool{}
	for len(all) > 0 {
		first := all[0]
		n := slices.IndexFunc(all, func(e example) bool { return e.page != first.page || e.section != first.section })
		if n < 0 {
			n = len(all)
		}
		var section []example
		for _, e := range all[:n] {
			switch {
			case e.inline && mentioned[e.text]:
				continue
			case e.inline:
				mentioned[e.text] = true
			case onlyRead[e.key()] != "":
				read++
			default:
				ran++
			}
			section = append(section, e)
		}
		all = all[n:]
		t.Run(first.page+" "+first.section, func(t *testing.T) {
			t.Parallel()
			r := w.reader(t, first.section)
			if _, err := exec.LookPath("curl"); err != nil && slices.ContainsFunc(section, func(e example) bool { return strings.HasPrefix(e.text, "curl ") }) {
				t.Skip("there is no curl here")
			}
			for _, e := range section {
				if err := r.follow(e); err != nil {
					t.Errorf("%s:%d: %v", e.page, e.line, err)
				}
			}
		})
	}
	t.Run("help", func(t *testing.T) { understandHelp(t, w) })
	t.Run("controls", func(t *testing.T) { followWrong(t, w) })
	t.Logf("%d commands of blocks run, %d are only read; %d that sentences mention", ran, read, len(mentioned))
}

// key is a command as onlyRead has it: on one line, without a comment.
func (e example) key() string {
	text := regexp.MustCompile(`\s# .*$`).ReplaceAllString(strings.ReplaceAll(e.text, "\\\n", ""), "")
	return strings.Join(strings.Fields(text), " ")
}

// follow does with a command what is to be done with it.
func (r *reader) follow(e example) error {
	switch {
	case e.inline:
		return r.mentioned(e.text)
	case onlyRead[e.key()] != "":
		return r.understand(e.text)
	default:
		return r.run(e.text)
	}
}

// unusedTables are entries of the tables above that nothing needs any more.
func unusedTables(all []example) (unused []string) {
	has := func(what func(example) bool) bool { return slices.ContainsFunc(all, what) }
	for _, s := range samples {
		if !has(func(e example) bool { return strings.Contains(e.text, s.text) }) {
			unused = append(unused, "sample "+s.text)
		}
	}
	for section := range scenes {
		if !has(func(e example) bool { return e.section == section && !e.inline }) {
			unused = append(unused, "section "+section)
		}
	}
	for command := range onlyRead {
		if !has(func(e example) bool { return e.key() == command && !e.inline }) {
			unused = append(unused, "command "+command)
		}
	}
	return unused
}

// wrong are pages with a mistake each, in what a page can say.
var wrong = map[string]string{
	"a program":                  "\n    $ debrif status\n",
	"a program among others":     "\n    debrief --version\n    debrif status\n",
	"a program in a fence":       "```sh\ndebrief --version\ndebrif status\n```\n",
	"a subcommand":               "\n    debrief playbok log\n",
	"a flag":                     "\n    $ debrief status --jsn\n",
	"a server's flag":            "\n    debrief up --simulatd\n",
	"a worker's flag":            "\n    bin/curator --nats nats://host:4222 --batchs 3\n",
	"what no server knows":       "\n    $ curl -s http://127.0.0.1:4280/v1/contexts -H 'Content-Type: application/json' \\\n      -d '{}'\n",
	"a file":                     "\n    debrief learn result.json\n",
	"a setting":                  "\n    DEBRIEF_DATADIR=here debrief status\n",
	"a subcommand in a sentence": "See `debrief backups create`.",
	"a flag in a sentence":       "See `debrief playbook\ngate --of`.",
	"a test in a sentence":       "See `go test ./integration -run TestNoSuchThing`.",
	"a package in a sentence":    "See `go doc ./event`.",
	"a manifest in a sentence":   "See `kubectl apply -k deploy/kubernetes/bas`.",
	"a container's command":      "See `deploy/compose debrief statis`.",
	"a container's file":         "See `deploy/compos up`.",
	"quotes that are not closed": "\n    debrief submit \"what\n",
}

// followWrong follows pages that are wrong, and wants each found.
func followWrong(t *testing.T, w *workplace) {
	t.Parallel()
	r := w.reader(t, "")
	for name, text := range wrong {
		var errs []error
		for _, e := range (page{name: name, text: text}).commands() {
			errs = append(errs, r.follow(e))
		}
		if errors.Join(errs...) == nil {
			t.Errorf("%s: got %d commands and nothing wrong with them", name, len(errs))
		}
		if n := len(errs); n > 0 && errs[n-1] == nil {
			t.Errorf("%s: the mistake is found in another command: %v", name, errs)
		}
	}
	if got, want := len(unusedTables(nil)), len(samples)+len(scenes)+len(onlyRead); got != want {
		t.Errorf("without pages got %d entries of tables that are on none, want %d", got, want)
	}
}

// understandHelp understands the examples in what the programs and their commands say of themselves.
func understandHelp(t *testing.T, w *workplace) {
	t.Parallel()
	r := w.reader(t, "")
	r.write("debrief.yaml", "window: 4\n")
	r.write("runs.json", "[]")
	if err := os.Symlink(filepath.Join(w.tls.dir, "secrets"), filepath.Join(r.dir, "secrets")); err != nil {
		t.Fatal(err)
	}
	var n atomic.Int32
	t.Cleanup(func() {
		t.Logf("%d examples", n.Load())
		if n.Load() < 30 {
			t.Error("these are too few to be all")
		}
	})
	for _, command := range documented(r) {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			text, _, _ := strings.Cut(r.must(command+" --help"), "\nFlags:\n")
			for _, e := range (page{command, text, true}).commands() {
				n.Add(1)
				if err := r.understand(e.text); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// documented are the commands that have a --help.
func documented(r *reader) []string {
	all := []string{"generator", "reflector", "curator"}
	_, commands, _ := strings.Cut(r.must("debrief --help"), "\nCommands:\n")
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+)*)(?:  |$)`).FindAllStringSubmatch(commands, -1) {
		command := "debrief"
		for _, word := range strings.Fields(m[1]) {
			command += " " + word
			all = append(all, command)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

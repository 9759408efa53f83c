package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// outsideProgram runs a Generator on an embedded server, in a module of its own.
const outsideProgram = `package main

import (
	"context"
	"fmt"
	"log"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/natsd"
	"debrief/generator"
)

func main() {
	ctx, stop := context.WithCancel(context.Background())
	server, err := natsd.Start(natsd.Config{})
	check(err)
	defer server.Close()
	nc, err := server.Connect()
	check(err)
	defer nc.Close()
	conn, err := bus.Open(ctx, nc, bus.Options{})
	check(err)
	model := chat.ModelFunc(func(context.Context, chat.Prompt) (chat.Reply, error) {
		return chat.Reply{Text: "The final answer is: 42"}, nil
	})
	done := make(chan error)
	role, err := generator.New(model, nil, generator.Config{})
	check(err)
	go func() { done <- role.Run(ctx, conn) }()
	task := &events.Task{Book: "sums", ID: "t1", Question: "What is six times seven?", Target: "42"}
	reply, err := conn.Request(ctx, task, bus.PublishOptions{})
	check(err)
	e := new(events.Execution)
	check(events.Unmarshal(reply.Data, e))
	stop()
	check(<-done)
	fmt.Println(e.Answer, e.Outcome.Label)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
`

// TestAnotherModuleRunsARole builds a program that requires this module, without network, and runs it. So a role needs
// nothing from the internal packages of the programs.
func TestAnotherModuleRunsARole(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program: run without -short")
	}
	t.Parallel()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sums, err := os.ReadFile("../go.sum")
	if err != nil {
		t.Fatal(err)
	}
	_, requirements, _ := strings.Cut(string(module), "\n") // the same versions, which are in the module cache
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":  "module example.org/agent\n" + requirements + "\nrequire debrief v0.0.0\n\nreplace debrief => " + root + "\n",
		"go.sum":  string(sums),
		"main.go": outsideProgram,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), "go", "run", ".")
	run.Dir = dir
	run.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-mod=mod -trimpath '-ldflags=-s -w'", "GOPROXY=off", "GOWORK=off")
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", run, err, out)
	}
	if got, want := string(out), "42 success\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

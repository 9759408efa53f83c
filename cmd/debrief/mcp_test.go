package main

import (
	"io"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// TestMCPOverStandardStreams has an official client start 'debrief mcp' as agents do, with a real server behind it.
func TestMCPOverStandardStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	server, out := startProgram(t, "up", "--simulated", "--listen", "none", "--http", "127.0.0.1:0")
	address, ready, all := "", regexp.MustCompile(`http://127\.0\.0\.1:\d+`), ""
	for address == "" {
		line, err := out.ReadString('\n')
		if all += line; err != nil {
			t.Fatalf("the server did not print its address: %s", all)
		}
		address = ready.FindString(line)
	}
	rest := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(out) // so that the server never waits for a reader
		rest <- string(text)
	}()
	agent := exec.Command(server.Path, "mcp", "--url", address, "--book", "shelves")
	agent.Stderr, agent.Env = os.Stderr, server.Env
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.CommandTransport{Command: agent}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range []mcp.CallToolParams{
		{Name: "playbook_context", Arguments: map[string]any{"query": "Which shelf is highest?"}},
		{Name: "report_run", Arguments: map[string]any{"question": "Which shelf is highest?", "answer": "Shelf 7.", "outcome": "success"}},
		{Name: "propose_bullet", Arguments: map[string]any{"content": "Count the shelves from below."}},
	} {
		if got, err := session.CallTool(t.Context(), &call); err != nil || got.IsError {
			t.Errorf("%s: got %+v, %v", call.Name, got, err)
		}
	}
	began := time.Now()
	if err := session.Close(); err != nil {
		t.Errorf("the command ended with %v, want exit code 0", err)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("the command ended %s after its input", took)
	}
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = server.Wait()
	<-rest
}

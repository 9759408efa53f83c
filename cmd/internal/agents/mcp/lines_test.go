package mcp_test

import (
	"bufio"
	"encoding/json"
	"io"
	"testing"
	"time"

	"debrief/cmd/internal/agents/mcp"
	"debrief/cmd/internal/api"
)

// TestInvalidLinesDoNotEndTheSession sends lines that are no messages, each before a ping.
func TestInvalidLinesDoNotEndTheSession(t *testing.T) {
	t.Parallel()
	fromClient, toServer := io.Pipe()
	fromServer, toClient := io.Pipe()
	served := make(chan error, 1)
	go func() {
		served <- mcp.Serve(t.Context(), api.NewClient("http://127.0.0.1:1", ""), "default", fromClient, toClient)
	}()
	type reply struct {
		ID    any             `json:"id"`
		Error json.RawMessage `json:"error"`
	}
	replies := make(chan reply)
	go func() {
		defer close(replies)
		lines := bufio.NewScanner(fromServer)
		for lines.Scan() {
			var r reply
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				t.Errorf("got the line %q: %v", lines.Text(), err)
			}
			replies <- r
		}
	}()
	next := func() reply {
		select {
		case r, ok := <-replies:
			if !ok {
				t.Fatal("the session has ended")
			}
			return r
		case <-time.After(10 * time.Second):
			t.Fatal("no reply")
		}
		return reply{}
	}
	for line, code := range map[string]int{
		"hello": -32700, `{"jsonrpc":`: -32700, "\xff\x00": -32700,
		"7": -32600, "{}": -32600, "[]": -32600, `[{"jsonrpc":"2.0"}]`: -32600, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":{},"method":"ping"}`: -32600,
	} {
		if _, err := io.WriteString(toServer, line+"\n\r\n"+`{"jsonrpc":"2.0","id":"p","method":"ping"}`+"\n"); err != nil {
			t.Fatal(err)
		}
		refused := next()
		var e struct{ Code int }
		if err := json.Unmarshal(refused.Error, &e); err != nil || refused.ID != nil || e.Code != code {
			t.Errorf("%q: got the error %s with the id %v, want the code %d", line, refused.Error, refused.ID, code)
		}
		if pong := next(); pong.ID != "p" || pong.Error != nil {
			t.Errorf("%q: got %+v for a ping", line, pong)
		}
	}
	if err := toServer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

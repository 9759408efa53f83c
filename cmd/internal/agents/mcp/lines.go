package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// messageLines reads the messages of an agent, one on each line. It answers a line that is no message of JSON-RPC with an error and leaves it
// out, because the SDK would end the session.
type messageLines struct {
	io.Closer
	lines *bufio.Scanner
	out   io.Writer
	rest  []byte // of the current line, not read yet
}

// newMessageLines returns the lines of in. A line of more than limit bytes ends them with an error.
func newMessageLines(in io.ReadCloser, out io.Writer, limit int) *messageLines {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, limit)
	return &messageLines{Closer: in, lines: lines, out: out}
}

func (m *messageLines) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if !m.lines.Scan() {
			if err := m.lines.Err(); err != nil {
				return 0, fmt.Errorf("read a message: %w", err)
			}
			return 0, io.EOF
		}
		line := bytes.TrimSpace(m.lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if e := lineError(line); e != nil {
			if err := m.answer(e); err != nil {
				return 0, err
			}
			continue
		}
		m.rest = append(bytes.Clone(line), '\n')
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// answer writes an error without the id of a request, which the line does not have.
func (m *messageLines) answer(e *jsonrpc.Error) error {
	data, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": e})
	if err != nil {
		return err
	}
	_, err = m.out.Write(append(data, '\n'))
	return err
}

// lineError returns the error for a line that is neither a message nor a batch of messages, or nil.
func lineError(line []byte) *jsonrpc.Error {
	if !json.Valid(line) {
		return &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is not JSON"}
	}
	messages := []json.RawMessage{line}
	if line[0] == '[' {
		_ = json.Unmarshal(line, &messages) // valid JSON, so this cannot fail
	}
	for _, message := range messages {
		if _, err := jsonrpc.DecodeMessage(message); err != nil {
			return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
		}
	}
	if len(messages) == 0 {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "empty batch"}
	}
	return nil
}

// lockedWriter is the output of the server and of messageLines. It is safe for concurrent use.
type lockedWriter struct {
	io.WriteCloser
	mu sync.Mutex
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteCloser.Write(p)
}

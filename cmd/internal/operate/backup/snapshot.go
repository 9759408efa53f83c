package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// This file is a client of the server's snapshot API, which nats.go lacks. The client in jsm.go waits without limit after a
// connection failure, and buffers in memory if the disk is slower than the server.

const (
	// chunk is the size of a message of a snapshot, and of an entry of the archive.
	chunk = 256 << 10
	// window is the maximum number of bytes in flight.
	window = 4 << 20
	// serverTimeout is the maximum time without a message from the server.
	serverTimeout = 30 * time.Second
)

// State is the state of a stream at its snapshot.
type State struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
}

// apiError is an error of the server's API.
type apiError struct {
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("server error: %s (%d)", e.Description, e.ErrCode)
}

// codeRestoreFailed is the error code of the server for a snapshot that it could not restore.
const codeRestoreFailed = 10062

// call sends a request to the server's API and decodes its reply.
func call(ctx context.Context, nc *nats.Conn, subject string, req, answer any) error {
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	m, err := request(ctx, nc, subject, data, serverTimeout)
	if err != nil {
		return err
	}
	return decode(m.Data, answer)
}

func decode(data []byte, answer any) error {
	var r struct {
		Error *apiError `json:"error"`
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("decode reply: %w", err)
	}
	if r.Error != nil {
		return r.Error
	}
	return json.Unmarshal(data, answer)
}

// snapshot requests a snapshot of a stream and calls fn with its pieces, in order. Config and state are in the
// server's encoding, which a restore needs unchanged.
func snapshot(ctx context.Context, nc *nats.Conn, stream string, fn func([]byte) error) (config, state json.RawMessage, err error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, nil, err
	}
	defer sub.Unsubscribe()
	if err := sub.SetPendingLimits(-1, 2*window); err != nil { // enough, because the server sends one window at most
		return nil, nil, err
	}
	var answer struct {
		Config json.RawMessage `json:"config"`
		State  json.RawMessage `json:"state"`
	}
	err = call(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{
		"deliver_subject": inbox, "no_consumers": true, "chunk_size": chunk, "window_size": window, "jsck": true,
	}, &answer)
	if err != nil {
		return nil, nil, err
	}
	for n := 1; ; n++ {
		waitCtx, cancel := context.WithTimeout(ctx, serverTimeout)
		m, err := sub.NextMsgWithContext(waitCtx)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return nil, nil, fmt.Errorf("no message from the server for %s", serverTimeout)
		case err != nil:
			return nil, nil, err
		case len(m.Data) == 0:
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return nil, nil, fmt.Errorf("snapshot aborted by the server: %s %s", status, m.Header.Get("Description"))
			}
			return answer.Config, answer.State, nil
		}
		// The reply subject of every piece except the last ends with the number of the piece.
		if m.Reply != "" && !strings.HasSuffix(m.Reply, fmt.Sprintf(".%d", n)) {
			return nil, nil, fmt.Errorf("piece %d is missing", n)
		}
		if err := fn(m.Data); err != nil {
			return nil, nil, err
		}
		if m.Reply != "" {
			if err := m.Respond(nil); err != nil {
				return nil, nil, err
			}
		}
	}
}

// restore creates a stream from a snapshot. The stream must not exist.
func restore(ctx context.Context, nc *nats.Conn, stream string, config, state json.RawMessage, r io.Reader) (State, error) {
	var started struct {
		Deliver string `json:"deliver_subject"`
	}
	err := call(ctx, nc, "$JS.API.STREAM.RESTORE."+stream, map[string]json.RawMessage{"config": config, "state": state}, &started)
	if err != nil {
		return State{}, err
	}
	var restored struct {
		State State `json:"state"`
	}
	buf := make([]byte, min(chunk, nc.MaxPayload()))
	for {
		n, err := io.ReadFull(r, buf)
		if n == 0 && errors.Is(err, io.EOF) {
			break
		}
		if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			return State{}, err
		}
		m, err := request(ctx, nc, started.Deliver, buf[:n], serverTimeout)
		if err != nil {
			return State{}, err
		}
		if len(m.Data) > 0 { // the server replies to a piece only with an error
			return State{}, firstErr(decode(m.Data, &restored), errors.New("restore aborted by the server"))
		}
	}
	m, err := request(ctx, nc, started.Deliver, nil, time.Hour) // the server reads the snapshot and builds its indexes
	if err != nil {
		return State{}, err
	}
	return restored.State, decode(m.Data, &restored)
}

func firstErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func request(ctx context.Context, nc *nats.Conn, subject string, data []byte, timeout time.Duration) (*nats.Msg, error) {
	timeoutCtx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, err := nc.RequestWithContext(timeoutCtx, subject, data)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("no reply from the server for %s: %w", timeout, nats.ErrTimeout)
	}
	return m, err
}

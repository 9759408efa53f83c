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

// The server's own snapshots, which nats.go has no client for. jsm.go has one; it waits for ever when the connection
// breaks in the middle, and takes what comes faster than a disk writes into memory.

const (
	// chunk is how much of a snapshot travels in a message, and is an entry of the archive.
	chunk = 256 << 10
	// window is how much of it may be on its way.
	window = 4 << 20
	// silence is how long the server may say nothing before it counts as gone.
	silence = 30 * time.Second
)

// State is what a stream held when its snapshot was taken.
type State struct {
	Messages uint64 `json:"messages"`
	Bytes    uint64 `json:"bytes"`
	First    uint64 `json:"first_seq"`
	Last     uint64 `json:"last_seq"`
}

// refusal is the part of the server's answers that says what went wrong.
type refusal struct {
	Error *struct {
		Code        int    `json:"code"`
		ErrCode     int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// ask sends a request to the server's API and reads its answer.
func ask(ctx context.Context, nc *nats.Conn, subject string, req, answer any) error {
	data, err := json.Marshal(req)
	if err != nil {
		return err
	}
	m, err := request(ctx, nc, subject, data, silence)
	if err != nil {
		return err
	}
	return read(m.Data, answer)
}

func read(data []byte, answer any) error {
	var r refusal
	if err := json.Unmarshal(data, &r); err != nil {
		return fmt.Errorf("the server's answer: %w", err)
	}
	if r.Error != nil {
		return fmt.Errorf("the server says: %s (%d)", r.Error.Description, r.Error.ErrCode)
	}
	return json.Unmarshal(data, answer)
}

// take has the server write down a stream, and calls fn with the pieces, in order. Config and state are as the server
// gave them: it wants both back.
func take(ctx context.Context, nc *nats.Conn, stream string, fn func([]byte) error) (config, state json.RawMessage, err error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, nil, err
	}
	defer sub.Unsubscribe()
	if err := sub.SetPendingLimits(-1, 2*window); err != nil { // the server keeps to its window
		return nil, nil, err
	}
	var answer struct {
		Config json.RawMessage `json:"config"`
		State  json.RawMessage `json:"state"`
	}
	err = ask(ctx, nc, "$JS.API.STREAM.SNAPSHOT."+stream, map[string]any{
		"deliver_subject": inbox, "no_consumers": true, "chunk_size": chunk, "window_size": window, "jsck": true,
	}, &answer)
	if err != nil {
		return nil, nil, err
	}
	for n := 1; ; n++ {
		quiet, cancel := context.WithTimeout(ctx, silence)
		m, err := sub.NextMsgWithContext(quiet)
		cancel()
		switch {
		case err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			return nil, nil, fmt.Errorf("the server sent nothing for %s", silence)
		case err != nil:
			return nil, nil, err
		case len(m.Data) == 0:
			if status := m.Header.Get("Status"); status != "" && status != "204" {
				return nil, nil, fmt.Errorf("the server broke off: %s %s", status, m.Header.Get("Description"))
			}
			return answer.Config, answer.State, nil
		}
		// All but the last piece say how manieth they are, at the end of where they want to be acknowledged.
		if m.Reply != "" && !strings.HasSuffix(m.Reply, fmt.Sprintf(".%d", n)) {
			return nil, nil, fmt.Errorf("piece %d did not arrive", n)
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

// give has the server make a stream of what take wrote down. The stream must not be there.
func give(ctx context.Context, nc *nats.Conn, stream string, config, state json.RawMessage, r io.Reader) (State, error) {
	var begun struct {
		Deliver string `json:"deliver_subject"`
	}
	err := ask(ctx, nc, "$JS.API.STREAM.RESTORE."+stream, map[string]json.RawMessage{"config": config, "state": state}, &begun)
	if err != nil {
		return State{}, err
	}
	var made struct {
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
		m, err := request(ctx, nc, begun.Deliver, buf[:n], silence)
		if err != nil {
			return State{}, err
		}
		if len(m.Data) > 0 { // it says something only when it is an error
			return State{}, cmpErr(read(m.Data, &made), errors.New("the server ended it"))
		}
	}
	m, err := request(ctx, nc, begun.Deliver, nil, time.Hour) // it reads all of it now, and makes its indices
	if err != nil {
		return State{}, err
	}
	return made.State, read(m.Data, &made)
}

func cmpErr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

func request(ctx context.Context, nc *nats.Conn, subject string, data []byte, most time.Duration) (*nats.Msg, error) {
	patient, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	m, err := nc.RequestWithContext(patient, subject, data)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = fmt.Errorf("the server did not answer for %s: %w", most, nats.ErrTimeout)
	}
	return m, err
}

package liveness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
)

const (
	// answerWait bounds how long a process takes over its report: who asks does not wait for longer.
	answerWait = 400 * time.Millisecond
	rollWait   = 600 * time.Millisecond
	maxReports = 1000
)

// Answer answers roll calls until closed is called. Nothing is stored: a process that is gone is not heard of.
func (p *Process) Answer() (closed func(), err error) {
	nc := p.conn.NATS()
	ctx, stop := context.WithCancel(context.Background())
	sub, err := nc.Subscribe(events.SubjectHealth, func(m *nats.Msg) {
		// Only to an inbox: the reply is published with our rights, which are more than those of who asks.
		if !strings.HasPrefix(m.Reply, "_INBOX") && !strings.HasPrefix(m.Reply, "_R_.") && !strings.HasPrefix(m.Reply, "_GR_.") {
			return
		}
		ctx, cancel := context.WithTimeout(ctx, answerWait)
		defer cancel()
		data, err := json.Marshal(p.Check(ctx))
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			p.conn.Log().Warn().Err(err).Msg("health report")
		}
	})
	if err != nil {
		stop()
		return nil, fmt.Errorf("subscribe to %s: %w", events.SubjectHealth, err)
	}
	return func() {
		stop()
		_ = sub.Unsubscribe() // a closed connection has none
	}, nil
}

// Call asks every process of the account how it is, and takes the answers of half a second. What cannot be read is
// left out.
func Call(ctx context.Context, nc *nats.Conn) ([]Report, error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("subscribe to reports: %w", err)
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(events.SubjectHealth, inbox, nil); err != nil {
		return nil, fmt.Errorf("ask for reports: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, rollWait)
	defer cancel()
	var all []Report
	for len(all) < maxReports {
		m, err := sub.NextMsgWithContext(waiting)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("wait for reports: %w", err)
		}
		if m.Header.Get("Status") == "503" { // nobody is there
			return all, nil
		}
		var r Report
		if json.Unmarshal(m.Data, &r) == nil {
			all = append(all, r)
		}
	}
	return all, nil
}

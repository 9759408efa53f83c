package liveness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
)

const (
	replyTimeout   = 400 * time.Millisecond // for the report of a process: callers wait for collectTimeout
	collectTimeout = 600 * time.Millisecond
	maxReports     = 1000
)

// ServeReports replies to health requests until stop is called. Nothing is stored, so a stopped process has no report.
func (p *Process) ServeReports() (stop func(), err error) {
	nc := p.conn.NATS()
	serving, cancel := context.WithCancel(context.Background())
	sub, err := nc.Subscribe(events.SubjectHealth, func(m *nats.Msg) {
		if !events.IsInbox(m.Reply) {
			return
		}
		ctx, cancel := context.WithTimeout(serving, replyTimeout)
		defer cancel()
		data, err := json.Marshal(p.Check(ctx))
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			p.conn.Log().Warn().Err(err).Msg("send health report")
		}
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("subscribe to %s: %w", events.SubjectHealth, err)
	}
	return func() {
		cancel()
		_ = sub.Unsubscribe() // fails only on a closed connection
	}, nil
}

// CollectReports requests a report from every process of the account, and collects the replies for 600 ms. known are the ids of
// processes that run: if there are any, CollectReports returns as soon as each of them has replied. Unreadable replies are skipped. A
// process counts once: between accounts, the server can deliver a request to it more than once.
func CollectReports(ctx context.Context, nc *nats.Conn, known ...string) ([]Report, error) {
	inbox := nc.NewInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("subscribe to reports: %w", err)
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(events.SubjectHealth, inbox, nil); err != nil {
		return nil, fmt.Errorf("request reports: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	var all []Report
	missing := slices.Clone(known)
	for len(all) < maxReports && (len(known) == 0 || len(missing) > 0) {
		m, err := sub.NextMsgWithContext(waiting)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("wait for reports: %w", err)
		}
		if m.Header.Get("Status") == "503" { // no responders
			return all, nil
		}
		var r Report
		isSameProcess := func(other Report) bool { return r.Process != "" && other.Process == r.Process }
		if json.Unmarshal(m.Data, &r) == nil && !slices.ContainsFunc(all, isSameProcess) {
			all = append(all, r)
			missing = slices.DeleteFunc(missing, func(process string) bool { return process == r.Process })
		}
	}
	return all, nil
}

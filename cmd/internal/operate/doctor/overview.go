package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/liveness"
	"debrief/events/streams"
	"debrief/playbook"
)

// DamageFix is the advice for lost messages.
const DamageFix = "restore a backup, or accept the loss with 'debrief doctor --accept-damage'"

// Overview is the state of the streams, the roles and the playbooks at one moment.
type Overview struct {
	Level   liveness.Level                  `json:"level"`
	Store   []string                        `json:"store,omitempty"` // reasons why processes cannot write to the store
	Streams []bus.StreamState               `json:"streams"`
	Roles   map[string]liveness.RoleSummary `json:"roles"`
	Books   []BookState                     `json:"books"`
	Workers []liveness.Report               `json:"workers"`
	Damage  []Damage                        `json:"damage,omitempty"`
}

// BookState is the state of a playbook's log and view.
type BookState struct {
	Book    playbook.Book `json:"book"`
	Version string        `json:"version"`
	Bullets int           `json:"bullets"`
	Shown   int           `json:"shown"`           // bullets that prompts may contain
	Lag     uint64        `json:"lag"`             // versions that the view is behind the log
	Error   string        `json:"error,omitempty"` // the log is damaged, or its end is lost
	Delta   time.Time     `json:"last_delta_at"`
}

// ReadOverview reads the state of the streams and the roles. It leaves Books, Damage and Level unset. For the parameters see ReadRoles.
func ReadOverview(ctx context.Context, conn *bus.Conn, alarmAfter time.Duration, known ...string) (*Overview, error) {
	o := &Overview{}
	var err error
	if o.Workers, o.Roles, err = ReadRoles(ctx, conn, alarmAfter, known...); err != nil {
		return nil, err
	}
	o.Store = liveness.StoreErrors(o.Workers)
	o.Streams, err = conn.Streams(ctx)
	return o, err
}

// ReadRoles collects the reports of the workers, and returns them with the state of the roles. A role with work is red after the time
// alarmAfter without a result. known are the ids of processes that run, see liveness.CollectReports.
func ReadRoles(ctx context.Context, conn *bus.Conn, alarmAfter time.Duration, known ...string) ([]liveness.Report, map[string]liveness.RoleSummary, error) {
	reports, err := liveness.CollectReports(ctx, conn.NATS(), known...)
	if err != nil {
		return nil, nil, err
	}
	roles := map[string]liveness.RoleSummary{}
	for _, role := range streams.Roles {
		w, err := conn.Consumers.Backlog(ctx, role)
		if err != nil {
			return nil, nil, err
		}
		roles[role] = liveness.Summarize(role, w, reports, time.Now(), alarmAfter)
	}
	return reports, roles, nil
}

// Rate sets Level to the worst level of all parts.
func (o *Overview) Rate() {
	o.Level = liveness.Green
	for _, r := range o.Roles {
		o.Level = liveness.Worse(o.Level, r.Level)
	}
	for _, w := range o.Workers {
		if w.Gateway != nil {
			o.Level = liveness.Worse(o.Level, w.Gateway.Level)
		}
	}
	if len(o.Damage) > 0 {
		o.Level = liveness.Worse(o.Level, liveness.Yellow)
	}
	if len(o.Red()) > 0 {
		o.Level = liveness.Red
	}
}

// Red names the parts that are red: the store, roles, streams with lost messages, and playbooks with a broken log.
func (o *Overview) Red() (names []string) {
	if len(o.Store) > 0 {
		names = append(names, "the store")
	}
	for _, role := range streams.Roles {
		if o.Roles[role].Level == liveness.Red {
			names = append(names, role)
		}
	}
	for _, d := range o.Damage {
		if d.Lost && !slices.Contains(names, "stream "+d.Stream) {
			names = append(names, "stream "+d.Stream)
		}
	}
	for _, b := range o.broken() {
		names = append(names, "playbook "+b)
	}
	return names
}

// broken returns the names of playbooks with a damaged or truncated log.
func (o *Overview) broken() (names []string) {
	for _, b := range o.Books {
		if b.Error != "" {
			names = append(names, string(b.Book))
		}
	}
	return names
}

// Advice returns a line for each problem that the operator can fix.
func (o *Overview) Advice() (lines []string) {
	if len(o.Damage) > 0 {
		lines = append(lines, "see 'debrief doctor' for the damage; "+DamageFix)
	}
	for _, b := range o.broken() {
		lines = append(lines, "see 'debrief playbook verify --book "+b+"'")
	}
	for _, w := range o.Workers {
		if w.Gateway != nil && w.Gateway.Level != liveness.Green {
			lines = append(lines, "check the base URL and the requests of the agents: each response says in X-Debrief-Degraded why its call is not captured")
			break
		}
	}
	dead := uint64(0)
	for _, role := range streams.Roles {
		r := o.Roles[role]
		dead += r.Dead
		switch {
		case r.Level == liveness.Green:
		case r.Workers == 0:
			lines = append(lines, fmt.Sprintf("start a %s: 'debrief up', or the program %s", role, role))
		case withoutModel(r):
			lines = append(lines, modelFix)
		default:
			lines = append(lines, fmt.Sprintf("check the %s: its log, its model, 'debrief doctor', and its results with 'debrief tail'", role))
		}
		if isNearlyFull(r.Bytes, r.MaxBytes) {
			lines = append(lines, fmt.Sprintf("the input stream of the %s is %d %% full: raise its size ('debrief setup --%s-size'), or start more %ss", role, 100*r.Bytes/r.MaxBytes, streams.NameOf(streams.Input(role)), role))
		}
	}
	if dead > 0 {
		lines = append(lines, fmt.Sprintf("%s: read the reasons with 'debrief dead list', then run 'debrief dead requeue --all', or drop them", term.Plural(int(dead), "dead letter")))
	}
	return lines
}

// withoutModel reports whether workers of the role run, and all of them only serve contexts. Only a generator can do that.
func withoutModel(r liveness.RoleSummary) bool {
	return r.Workers > 0 && r.States[string(bus.Serving)] == r.Workers
}

// modelFix is the advice for generators that only serve contexts.
const modelFix = "restart 'debrief up' with --model NAME, or start a program generator with --model NAME and without --serve-only"

// StateOf returns the state of a playbook from a writer that has just read its log and its view. failed is the error of that read. If
// the log is damaged or newer than this program, the state has the error; other errors are returned.
func StateOf(ctx context.Context, js jetstream.JetStream, b playbook.Book, w *deltalog.Writer, failed error) (BookState, error) {
	if errors.Is(failed, deltalog.ErrBrokenLog) || errors.Is(failed, events.ErrNewerSchema) {
		return BookState{Book: b, Error: failed.Error()}, nil
	}
	if failed != nil {
		return BookState{}, failed
	}
	p := w.State().Playbook()
	state := BookState{Book: b, Version: playbook.VersionLabel(p.Version(), w.State().Chain()), Bullets: p.Len(), Shown: len(p.Top(p.Len())), Lag: w.ViewLag()}
	if lost := w.LostVersion(); lost != "" {
		state.Error = fmt.Sprintf("stream %s lost the end of the log, which was at version %s", events.StreamDeltas, lost)
	}
	log, err := js.Stream(ctx, events.StreamDeltas)
	if err != nil {
		return BookState{}, fmt.Errorf("open stream %s: %w", events.StreamDeltas, err)
	}
	last, err := log.GetLastMsgForSubject(ctx, events.KindDelta.Subject(b))
	switch {
	case err == nil:
		state.Delta = last.Time
	case !errors.Is(err, jetstream.ErrMsgNotFound):
		return BookState{}, fmt.Errorf("read the last delta of %q: %w", b, err)
	}
	return state, nil
}

package request

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// fakeLog is a log that covers feedback at a time.
type fakeLog struct {
	cover   playbook.Cover
	from    time.Time // zero: never
	floor   uint64    // of the reflector
	readErr error
}

func (l *fakeLog) DeltasAfter(_ context.Context, _ playbook.Book, seq uint64, fn func(*deltalog.Record) error) error {
	if l.readErr != nil || seq >= 5 || l.from.IsZero() || time.Now().Before(l.from) {
		return l.readErr
	}
	return fn(&deltalog.Record{Seq: 5, Delta: playbook.Delta{Version: 2, Covers: []playbook.Cover{l.cover}}})
}

func (l *fakeLog) Lag(context.Context, string) (bus.Lag, error) { return bus.Lag{Floor: l.floor}, nil }

func TestFeedbackWaitsForItsDelta(t *testing.T) {
	t.Parallel()
	const never = -1
	for _, test := range []struct {
		name      string
		covered   time.Duration // after the start, or never
		floor     uint64
		duplicate bool
		pending   string // role
	}{
		{name: "already covered", covered: 0, duplicate: true},
		{name: "covered soon", covered: 10 * time.Millisecond},
		{name: "covered late", covered: 9 * time.Second},
		{name: "no reflector", covered: never, floor: 8, pending: events.RoleReflector},
		{name: "no curator", covered: never, floor: 9, pending: events.RoleCurator},
		{name: "covered after the timeout", covered: time.Minute, floor: 9, pending: events.RoleCurator},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := &events.Execution{ID: events.Hash("e"), Outcome: events.Outcome{Label: events.Success, Score: 1}}
			f := &events.Feedback{ID: events.Hash("f"), Execution: "412-ab12cd34", Outcome: events.Outcome{Label: events.Failure}}
			log := &fakeLog{floor: test.floor, cover: playbook.Cover{ID: string(f.ID), Evidence: &playbook.Evidence{
				Sample: string(e.ID), FeedbackSeq: 9, Outcome: string(events.Failure),
			}}}
			if test.covered != never {
				log.from = time.Now().Add(test.covered)
			}
			r, err := NewFeedbackResult(t.Context(), log, f, e)
			if err != nil {
				t.Fatal(err)
			}
			if r.Duplicate != test.duplicate || (r.Version != "") != test.duplicate {
				t.Errorf("%s: got %+v", test.name, r)
			}
			if test.duplicate && r.Handle != events.NewHandle(9, f.ID) {
				t.Errorf("%s: got handle %q, want that of the first copy", test.name, r.Handle)
			}
			if !test.duplicate {
				if err := r.SetStored(&events.StoredReply{Handle: "9-ab12cd34"}); err != nil {
					t.Fatal(err)
				}
			}
			if r.After.Label != events.Failure || !test.duplicate && r.Before.Label != events.Success {
				t.Errorf("%s: got outcomes %+v → %+v", test.name, r.Before, r.After)
			}
			began := time.Now()
			err = r.Wait(t.Context(), log, 10*time.Second)
			var pending *PendingError
			if errors.As(err, &pending) != (test.pending != "") || pending != nil && (pending.Role != test.pending || pending.Handle != "9-ab12cd34") {
				t.Errorf("%s: got error %v, want a wait for the role %q", test.name, err, test.pending)
			}
			if took := time.Since(began); test.pending == "" && took > test.covered+500*time.Millisecond || took > 11*time.Second {
				t.Errorf("%s: waited %s", test.name, took)
			}
			if (r.Version != "") != (test.pending == "") {
				t.Errorf("%s: got version %q", test.name, r.Version)
			}
		})
	}
}

func TestFeedbackErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken log")
	log := &fakeLog{readErr: broken}
	f, e := &events.Feedback{ID: events.Hash("f")}, &events.Execution{ID: events.Hash("e")}
	if _, err := NewFeedbackResult(t.Context(), log, f, e); !errors.Is(err, broken) {
		t.Errorf("got error %v, want the error of the log", err)
	}
	log.readErr = nil
	r, err := NewFeedbackResult(t.Context(), log, f, e)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Wait(ctx, log, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: got %v", err)
	}
	log.readErr = broken
	if err := r.Wait(t.Context(), log, time.Minute); !errors.Is(err, broken) {
		t.Errorf("broken log: got %v", err)
	}
}

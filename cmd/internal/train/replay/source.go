package replay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// sourceRange is the range of executions that the run found when it began. Later executions and expiry do not change
// which executions are learned from together.
type sourceRange struct {
	Upto    uint64 `json:"last"`             // sequence of the last event
	Samples int    `json:"samples"`          // executions to learn from
	Version uint64 `json:"playbook_version"` // of the source playbook, for the comparison
}

// recordedSample is the position of the last round of a sample and the feedback on it.
type recordedSample struct {
	seq      uint64 // 0 if it has expired
	id       events.ID
	round    int
	place    int // in the order of the samples
	feedback []*events.Feedback
}

// sourceReader reads the recorded executions of a playbook.
type sourceReader struct {
	run   string        // name of the run
	book  playbook.Book // of the executions
	conn  *bus.Conn
	store *deltalog.Store
	state *state // of the run
}

// load returns the samples of the run, as they were when the run began. Executions expire oldest first. Expired
// samples stay at the start of the list, so that the others keep their positions.
func (r *sourceReader) load(ctx context.Context) ([]*recordedSample, *sourceRange, error) {
	source := r.state.sourceRange()
	if source == nil {
		s, err := r.conn.JetStream().Stream(ctx, events.StreamExecutions)
		if err != nil {
			return nil, nil, fmt.Errorf("open stream %s: %w", events.StreamExecutions, err)
		}
		w, err := r.store.Writer(ctx, r.book)
		if err != nil {
			return nil, nil, err
		}
		source = &sourceRange{Upto: s.CachedInfo().State.LastSeq, Version: w.State().Playbook().Version()}
	}
	all, err := r.readSamples(ctx, source.Upto)
	if err != nil {
		return nil, nil, err
	}
	if r.state.sourceRange() == nil {
		if len(all) == 0 {
			return nil, nil, fmt.Errorf("playbook %q: no stored executions to learn from", r.book)
		}
		source.Samples = len(all)
		if err := r.state.setSourceRange(ctx, source); err != nil {
			return nil, nil, err
		}
	}
	if gone := source.Samples - len(all); gone > 0 {
		if r.state.ended {
			return nil, nil, &ExpiredError{r.run}
		}
		expired := make([]*recordedSample, gone, source.Samples)
		for i := range expired {
			expired[i] = &recordedSample{id: "expired"}
		}
		all = append(expired, all...)
	}
	for i := range all {
		all[i].place = i
	}
	return all, source, nil
}

// readSamples returns the last round of every learning sample up to a sequence, with its feedback.
func (r *sourceReader) readSamples(ctx context.Context, upto uint64) ([]*recordedSample, error) {
	samples := map[string]*recordedSample{}
	read := func(kind events.Kind, take func(bus.Stored)) error {
		return r.conn.Events.ReadStored(ctx, events.StreamExecutions, kind.Subject(r.book), func(s bus.Stored) error {
			if s.Seq > upto {
				return bus.ErrStop
			}
			if bus.Unreachable(s.Err) { // events that are invalid, not unreachable, are skipped
				return fmt.Errorf("read event %d: %w", s.Seq, s.Err)
			}
			take(s)
			return nil
		})
	}
	err := read(events.KindExecution, func(s bus.Stored) {
		e, ok := s.Event.(*events.Execution)
		if !ok || e.Purpose == events.Evaluate {
			return
		}
		sample := samples[e.RunID]
		if sample == nil {
			sample = &recordedSample{round: -1}
			samples[e.RunID] = sample
		}
		if e.Origin.Round > sample.round { // of equal rounds, the first one counts
			sample.seq, sample.id, sample.round = s.Seq, e.ID, e.Origin.Round
		}
	})
	if err != nil {
		return nil, err
	}
	all := slices.SortedFunc(maps.Values(samples), func(a, b *recordedSample) int { return cmp.Compare(a.seq, b.seq) })
	err = read(events.KindFeedback, func(s bus.Stored) {
		f, ok := s.Event.(*events.Feedback)
		if !ok {
			return
		}
		seq, sample, err := f.Execution.Parse()
		if err != nil {
			return
		}
		if i, there := slices.BinarySearchFunc(all, seq, func(a *recordedSample, seq uint64) int { return cmp.Compare(a.seq, seq) }); there && sample(all[i].id) {
			all[i].feedback = append(all[i].feedback, f)
		}
	})
	return all, err
}

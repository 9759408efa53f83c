package executions

import (
	"cmp"
	"context"
	"slices"

	"debrief/events"
	"debrief/events/bus"
)

// doubt is an execution whose outcome the Reflector doubts.
type doubt struct {
	seq    uint64 // of the execution
	reason string
}

func compareDoubt(d doubt, seq uint64) int { return cmp.Compare(d.seq, seq) }

// addDoubt adds a stored reflection, if it doubts the outcome of its execution. A later reflection without a doubt, after feedback, removes
// it. Above the limit the oldest execution is dropped.
func (x *Index) addDoubt(s bus.Stored) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.read = s.Seq
	r, ok := s.Event.(*events.Reflection)
	if !ok {
		return nil
	}
	seq, _, err := r.Handle.Parse()
	if err != nil {
		return nil //nolint:nilerror // it is about no stored execution
	}
	i, found := slices.BinarySearchFunc(x.doubts, seq, compareDoubt)
	switch {
	case found && r.LabelSuspect == "":
		x.doubts = slices.Delete(x.doubts, i, i+1)
	case found:
		x.doubts[i].reason = r.LabelSuspect
	case r.LabelSuspect != "":
		x.doubts = slices.Insert(x.doubts, i, doubt{seq, r.LabelSuspect})
		x.doubts = x.doubts[max(0, len(x.doubts)-maxDoubts):]
	}
	return nil
}

// ReadDoubts reads the stored reflections, for an index that does not run.
func (x *Index) ReadDoubts(ctx context.Context) error {
	return x.conn.Events.ReadStored(ctx, events.StreamReflections, ">", x.addDoubt)
}

// Doubted returns the sequences of at most n executions of all playbooks below end whose outcome the Reflector doubts, newest first.
func (x *Index) Doubted(end uint64, n int) (found []uint64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	i, _ := slices.BinarySearchFunc(x.doubts, end, compareDoubt)
	for _, d := range slices.Backward(x.doubts[max(0, i-n):i]) {
		found = append(found, d.seq)
	}
	return found
}

// Doubt returns the reason why the Reflector doubts the outcome of an execution, or "".
func (x *Index) Doubt(seq uint64) string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if i, found := slices.BinarySearchFunc(x.doubts, seq, compareDoubt); found {
		return x.doubts[i].reason
	}
	return ""
}

package history

import (
	"slices"

	"debrief/playbook"
)

// SampleIndex finds the deltas of a log that a Contribution needs, so that a correction of one sample does not read the
// whole log. For each sample it has the versions of the deltas with the votes and outcomes of the sample. Some changes concern every sample: those
// that merge, replace or remove bullets, restore a version or forget executions. The index has these changes themselves, without texts. It
// needs about 100 bytes for each sample. The zero value is the index of an empty log.
type SampleIndex struct {
	version uint64
	parts   playbook.ChangeAssembler
	samples map[playbook.CoverKey][]uint64 // versions, by sampleKey
	shared  []change                       // of all samples, in order
}

// Add indexes the next delta of the log.
func (x *SampleIndex) Add(d *playbook.Delta) {
	x.version = d.Version
	c := change(x.parts.Add(d))
	if c == nil { // more parts of the change follow
		return
	}
	if isShared(c) {
		x.shared = append(x.shared, prune(c))
	}
	if x.samples == nil {
		x.samples = make(map[playbook.CoverKey][]uint64)
	}
	for _, cover := range c.last().Covers {
		if cover.Evidence == nil {
			continue
		}
		key := sampleKey(cover.Evidence.Sample)
		for _, part := range c { // Contribution needs all parts; several covers may be of the sample
			if versions := x.samples[key]; len(versions) == 0 || versions[len(versions)-1] < part.Version {
				x.samples[key] = append(versions, part.Version)
			}
		}
	}
}

// Versions returns the versions of the deltas that Contribution needs for a sample, in order. The caller must not change them.
func (x *SampleIndex) Versions(sample string) []uint64 {
	return x.samples[sampleKey(sample)]
}

// sampleKey returns the key of a sample in the index. It has 16 bytes, fewer than the id of the sample.
func sampleKey(sample string) playbook.CoverKey { return playbook.FeedbackKey(sample) }

// Contribution returns the contribution of a sample after the last delta of the index. The deltas are those with the
// versions of the sample, in order.
func (x *SampleIndex) Contribution(sample string, deltas []*playbook.Delta) *Contribution {
	s := NewContribution(sample)
	// Fold both lists in the order of their versions. Some shared changes are also among the deltas, with all their parts: they are folded only once, as
	// deltas.
	shared := x.shared
	for _, d := range deltas {
		for len(shared) > 0 && shared[0].last().Version < d.Version {
			s.applyChange(shared[0])
			shared = shared[1:]
		}
		if len(shared) > 0 && shared[0][0].Version <= d.Version { // d is the first part of this change, and the deltas have the others too
			shared = shared[1:]
		}
		s.Apply(d)
	}
	for _, c := range shared {
		s.applyChange(c)
	}
	s.version = x.version
	return s
}

// isShared reports whether a change can move the votes of samples that it does not cover.
func isShared(c change) bool {
	last := c.last()
	return last.Forget != nil || last.RestoredVersion != nil || slices.ContainsFunc(c, func(part *playbook.Delta) bool {
		return slices.ContainsFunc(part.Ops, func(op playbook.Op) bool { return movesVotes(op.Kind) })
	})
}

// movesVotes reports whether an operation moves or clears votes of all samples.
func movesVotes(kind playbook.OpKind) bool {
	return kind == playbook.Put || kind == playbook.Remove || kind == playbook.Merge
}

// prune returns a copy of a change with the fields that matter to samples that it does not cover.
func prune(c change) (pruned change) {
	for _, part := range c {
		kept := &playbook.Delta{Version: part.Version, ChangeID: part.ChangeID, More: part.More, RestoredVersion: part.RestoredVersion, Forget: part.Forget}
		for i := range part.Ops {
			if op := &part.Ops[i]; movesVotes(op.Kind) {
				kept.Ops = append(kept.Ops, playbook.Op{Kind: op.Kind, Bullet: op.Bullet, Sources: op.Sources})
			}
		}
		pruned = append(pruned, kept)
	}
	return pruned
}

// applyChange folds a whole change.
func (s *Contribution) applyChange(c change) {
	for _, part := range c {
		s.Apply(part)
	}
}

package deltalog

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"debrief/events"
)

// Redacted is a version whose texts were erased. The log lists its present form, or the erasure is not complete.
type Redacted struct {
	Version uint64    `json:"version"`
	Listed  uint64    `json:"listed_in,omitempty"` // version that lists the redaction; 0 if none does
	Author  string    `json:"author,omitempty"`    // of that version
	Time    time.Time `json:"time,omitzero"`       // of that version
}

// redactionCheck compares the redactions of a log with the lists in it.
type redactionCheck struct {
	listed listings
	// original has the sequence of each redacted delta, and whether the delta as it was written is still stored.
	original map[uint64]bool
}

// add records the lists of redactions in the next delta. For a redaction it also records whether the original is still stored.
func (c *redactionCheck) add(r *Record) {
	c.listed.add(r)
	if r.Redaction != nil {
		c.original[r.Seq] = r.originalStored
	}
}

// reportRedactions adds a finding for each redaction that no delta lists in its present form, and for each erasure that is not complete. A
// redaction may be unlisted while the message that it replaces is still stored: the erasure was interrupted.
func (v *verifier) reportRedactions(ctx context.Context, s *Store) error {
	stored, err := s.readRedactions(ctx, v.Book)
	if err != nil {
		return err
	}
	unfinished := 0
	current := newest(stored)
	for _, seq := range slices.Sorted(maps.Keys(current)) {
		r := current[seq]
		list := v.redactions.listed[r.Version]
		found := Redacted{Version: r.Version}
		isListed := bytes.Equal(list.sum, r.sum)
		if isListed {
			found.Listed = list.by.Version
			found.Author, found.Time = list.by.Author, list.by.Time
		}
		v.Redacted = append(v.Redacted, found)
		// An older redaction of the same delta is removed after the newest one is listed. Until then the older one must be the listed one:
		// otherwise the redactions were changed.
		hasOlder := slices.ContainsFunc(stored, func(o *storedRedaction) bool {
			return o.err == nil && o.Seq == seq && o != r && (isListed || bytes.Equal(o.sum, list.sum))
		})
		switch {
		case hasOlder, v.redactions.original[seq]: // the text that is to be erased is still stored
			unfinished++
		case isListed: // complete
		case !v.broken:
			v.addFinding(Broken, FindingRedaction, "version %d has a redaction in stream %s that no version lists: it may have been changed after the texts were erased; restore the stream from a backup",
				r.Version, events.StreamRedactions)
		}
	}
	for _, r := range stored {
		if r.err != nil {
			v.addFinding(Broken, FindingRedaction, "the message at sequence %d of stream %s cannot be read: %v", r.msgSeq, events.StreamRedactions, r.err)
		}
	}
	if unfinished > 0 {
		v.addFinding(Note, FindingErasure, "the erasure of %d versions is not complete: their texts are still stored; erase again", unfinished)
	}
	v.reportLostRedactions(current)
	return nil
}

// reportLostRedactions adds a finding for each version that is listed as redacted and has no redaction.
func (v *verifier) reportLostRedactions(current map[uint64]*storedRedaction) {
	versions := map[uint64]bool{}
	for _, r := range current {
		versions[r.Version] = true
	}
	for _, version := range slices.Sorted(maps.Keys(v.redactions.listed)) {
		if !versions[version] && !v.broken {
			v.addFinding(Missing, FindingRedaction, "version %d is listed as redacted in version %d, and stream %s has no redaction of it: its texts are stored; erase again, or restore the stream from a backup",
				version, v.redactions.listed[version].by.Version, events.StreamRedactions)
		}
	}
}

package generator

import (
	"cmp"
	"context"
	"time"

	"debrief/events"
	"debrief/events/redact"
	"debrief/events/window"
)

// This file assigns sessions to the control share of a playbook: each session belongs to the control group, or not. The arm is this choice. A hash
// decides, so all Generators agree without a message between them. The arm and the share of the first context of a session are recorded, so that
// the session keeps them when a person changes the share. If the record cannot be read, or has expired, the hash decides again.

// controlKey names the session that decides the arm of a request. It is empty for a request without an arm.
type controlKey struct {
	session string // for a run without a session, an id that only this run has
	// lasts is set if the session may have further requests, so that its arm must be recorded.
	lasts bool
	// uncounted is set for a dry run, and for a context with a pinned version: they have the arm of their session, but no comparison
	// of the groups counts them. Without the arm, a run of the control group could get advice by such a request.
	uncounted bool
}

// controlArm returns the arm of the session of a request, or nil if it has none. b is the newest version of the playbook.
func (cb *ContextBuilder) controlArm(ctx context.Context, b *cachedPlaybook, req *contextRequest) *events.Control {
	admission := b.admission()
	key, share := req.control, admission.ControlShare()
	if key.session == "" || share.PerMille() == 0 {
		return nil
	}
	session := redact.ID(key.session) // in the form of stored events
	arm := &events.Control{Share: share.PerMille(), Held: admission.InControl(req.book, req.owner, session, share)}
	if !key.lasts {
		return arm
	}
	id := controlID(req.owner, session)
	var recorded uint64
	var err error
	if key.uncounted { // read the record, but make none
		recorded, err = cb.windows.FirstCopy(ctx, req.book, window.EffectControl, id)
	} else {
		recorded, err = cb.windows.LoadOrStoreFirst(ctx, req.book, window.EffectControl, id, controlRecord(arm, time.Now()))
	}
	if err != nil {
		cb.conn.ContextLog(ctx).Debug().Err(err).Msg("record the arm of a session: its hash decides")
	}
	earlier, _ := armOf(recorded) // nil without a record
	return cmp.Or(earlier, arm)
}

// recordedArm returns the arm that the session of a report got with an earlier context, or nil. It is for a run without a context, for example
// because its advice was late, or because it repeats the advice of an earlier turn. A run that began before the arm was recorded has no arm: its
// prompts may have advice from the time before the share was switched on.
func (cb *ContextBuilder) recordedArm(ctx context.Context, e *events.Execution, session string) *events.Control {
	if session == "" {
		return nil
	}
	b, err := cb.playbooks.get(ctx, e.Book)
	if err != nil {
		return nil
	}
	if admission := b.admission(); admission.ControlShare().PerMille() == 0 {
		return nil
	}
	recorded, err := cb.windows.FirstCopy(ctx, e.Book, window.EffectControl, controlID(e.Owner, redact.ID(session)))
	arm, since := armOf(recorded)
	if err != nil || e.Started.Before(since) {
		return nil
	}
	return arm
}

func controlID(owner, session string) events.ID { return events.Hash("control", owner, session) }

// armBits is the number of the lowest bits of a record that hold the arm. Bit 0 is 1 in the control group. The other 9 bits hold the share,
// which is at most 500 per mille. The bits above armBits hold the time in milliseconds.
const armBits = 10

// controlRecord returns the stored form of an arm and of the time when it was recorded.
func controlRecord(arm *events.Control, at time.Time) uint64 {
	record := uint64(at.UnixMilli())<<armBits | uint64(arm.Share)<<1
	if arm.Held {
		record |= 1
	}
	return record
}

// armOf returns the arm of a record and its time. The arm is nil for 0 and for an invalid record.
func armOf(record uint64) (*events.Control, time.Time) {
	arm := &events.Control{Share: int(record % (1 << armBits) >> 1), Held: record&1 == 1}
	if arm.Validate() != nil {
		return nil, time.Time{}
	}
	return arm, time.UnixMilli(int64(record >> armBits))
}

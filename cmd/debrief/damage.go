package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/doctor"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/natsd"
	"debrief/playbook/natskv"
)

const acceptDamage = "restore a backup, or accept the loss with 'debrief doctor --accept-damage'"

// damage lists missing messages: those that the embedded server of the directory noted, and those that the streams show.
func (p place) damage(ctx context.Context, conn *bus.Conn, read uint64) ([]bus.Damage, error) {
	all, err := conn.Damage(ctx, read)
	if err != nil || !p.embedded() {
		return all, err
	}
	found, err := natsd.ReadDamage(p.dir())
	if err != nil {
		return nil, fmt.Errorf("read the damage found in %s: %w", p.dir(), err)
	}
	for _, d := range found {
		all = append(all, bus.Damage{Stream: d.Stream, Text: d.Text + " (found " + d.Time.Local().Format(time.DateTime) + ")", Sure: !d.Repaired, Repaired: d.Repaired})
	}
	return all, nil
}

// embedded reports whether the streams are those of an embedded server, perhaps of another process.
func (p place) embedded() bool { return p.NATS.NATS == "" && dirExists(p.dir()) }

// maxRead is how large a stream may be, in bytes, for the doctor to read all of it: a second or two.
const maxRead = 1 << 30

// examineDamage adds a check for each thing that the streams lack.
func (d *doctors) examineDamage(ctx context.Context, x *doctor.Exam, conn *bus.Conn) {
	if d.AcceptDamage {
		if !d.embedded() {
			x.Add("damage", doctor.Fail, "run it where the directory of the embedded server is", "--accept-damage is for the embedded server")
		} else if err := natsd.AcceptDamage(d.dir()); err != nil {
			x.Add("damage", doctor.Fail, "see the rights of the directory", "%v", err)
		}
	}
	all, err := d.damage(ctx, conn, maxRead)
	if err != nil {
		x.Add("damage", doctor.Fail, "see the checks above", "%v", err)
		return
	}
	for _, is := range all {
		switch {
		case is.Sure:
			x.Add("damage", doctor.Fail, acceptDamage, "%s", is)
		case is.Repaired:
			x.Add("damage", doctor.Warn, "nothing is lost; 'debrief doctor --accept-damage' ends this warning", "%s", is)
		default:
			x.Add("damage", doctor.Warn, "restore a backup if nobody deleted them; the warning ends when what is around them has expired", "%s", is)
		}
	}
	if len(all) == 0 {
		x.Add("damage", doctor.OK, "", "no stream lacks a message that it should hold; those of up to %d GiB were read", maxRead>>30)
	}
}

// examineBooks verifies every playbook.
func examineBooks(ctx context.Context, x *doctor.Exam, conn *bus.Conn) {
	store := natskv.New(conn.JetStream())
	books, err := store.Known(ctx)
	if err != nil {
		x.Add("playbooks", doctor.Fail, "see the checks above", "%v", err)
		return
	}
	sound := 0
	for _, b := range books {
		v, err := store.Verify(ctx, b)
		if err != nil {
			x.Add("playbook "+string(b), doctor.Fail, "see the checks above", "%v", err)
			continue
		}
		bad := 0
		for _, f := range v.Findings {
			r := map[natskv.Severity]doctor.Result{natskv.Broken: doctor.Fail, natskv.Behind: doctor.Warn, natskv.Skipped: doctor.Warn, natskv.Missing: doctor.Warn}[f.Severity]
			if r == "" {
				continue
			}
			if bad++; bad <= maxFindings {
				x.Add("playbook "+string(b), r, "'debrief playbook verify --book "+string(b)+"' shows all", "%s", f.Text)
			}
		}
		if bad == 0 {
			sound++
		}
	}
	if sound == len(books) {
		x.Add("playbooks", doctor.OK, "", "%s, each log whole and its view at the end of it", plural(len(books), "playbook"))
	}
}

// maxFindings is how many findings the doctor shows of a playbook.
const maxFindings = 5

// stored adds the damage of the streams that the playbook was learned from to a verification.
func (v *verified) stored(ctx context.Context, on *onBook, conn *bus.Conn) error {
	all, err := on.damage(ctx, conn, 0)
	if err != nil {
		return err
	}
	for _, d := range all {
		if d.Repaired || !slices.Contains([]string{events.StreamExecutions, events.StreamReflections, events.StreamDeltas, "KV_" + events.BucketPlaybook}, d.Stream) {
			continue
		}
		severity := natskv.Missing
		if d.Sure {
			severity = natskv.Broken
		}
		v.Findings = append(v.Findings, natskv.Finding{Severity: severity, Text: d.String() + ": " + acceptDamage})
	}
	return nil
}

// warnOfDamage logs the damage that the embedded server found.
func (p place) warnOfDamage(c *app.Common) {
	found, err := natsd.ReadDamage(p.dir())
	log := c.Logger()
	if err != nil {
		log.Warn().Err(err).Msg("read the damage that was found")
	}
	for _, d := range found {
		log.Warn().Str("stream", d.Stream).Time("found", d.Time).Msg("damage: " + d.Text + "; " + acceptDamage)
	}
}

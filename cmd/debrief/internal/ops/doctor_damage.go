package ops

import (
	"context"

	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/doctor"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/natsd"
)

// maxStreamSize is the largest stream, in bytes, that the doctor reads completely. Reading 1 GiB takes a second or two.
const maxStreamSize = 1 << 30

// checkDamage adds a check result for each gap in the streams. With --accept-damage it first clears the damage report.
func (d *Doctor) checkDamage(ctx context.Context, x *doctor.Report, conn *bus.Conn) {
	if d.AcceptDamage {
		if !d.Embedded() {
			x.Add("damage", doctor.Fail, "run it on the machine with the data directory, without --nats", "--accept-damage applies to an embedded server only")
		} else if err := natsd.AcceptDamage(d.Dir()); err != nil {
			x.Add("damage", doctor.Fail, "check the permissions of the directory", "%v", err)
		}
	}
	all, err := d.Damage(ctx, conn, maxStreamSize)
	if err != nil {
		x.Add("damage", doctor.Fail, "see the checks above", "%v", err)
		return
	}
	for _, is := range all {
		switch {
		case is.Lost:
			x.Add("damage", doctor.Fail, cli.DamageFix, "%s", is)
		case is.Repaired:
			x.Add("damage", doctor.Warn, "no message is lost; clear this warning with 'debrief doctor --accept-damage'", "%s", is)
		default:
			x.Add("damage", doctor.Warn, "restore a backup unless the messages were deleted on purpose; the warning ends when their neighbours expire", "%s", is)
		}
	}
	if len(all) == 0 {
		x.Add("damage", doctor.OK, "", "no stream has lost a message; streams of up to %d GiB were read completely", maxStreamSize>>30)
	}
}

// checkPlaybooks verifies every playbook.
func checkPlaybooks(ctx context.Context, x *doctor.Report, conn *bus.Conn) {
	store := deltalog.New(conn.JetStream())
	books, err := store.AllBooks(ctx)
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
			r := map[deltalog.Severity]doctor.Result{deltalog.Broken: doctor.Fail, deltalog.Behind: doctor.Warn, deltalog.Skipped: doctor.Warn, deltalog.Missing: doctor.Warn}[f.Severity]
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
		x.Add("playbooks", doctor.OK, "", "%s, each with a complete log and an up-to-date view", cli.Plural(len(books), "playbook"))
	}
}

// maxFindings is the maximum number of findings that the doctor shows for a playbook.
const maxFindings = 5

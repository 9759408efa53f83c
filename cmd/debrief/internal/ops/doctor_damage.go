package ops

import (
	"context"

	"debrief/cmd/internal/operate/doctor"
	"debrief/events/bus"
	"debrief/events/natsd"
)

// maxStreamSize is the largest stream, in bytes, that the doctor reads completely. Reading 1 GiB takes a second or two.
const maxStreamSize = 1 << 30

// checkDamage checks the streams for gaps. With --accept-damage it first clears the damage report.
func (d *Doctor) checkDamage(ctx context.Context, report *doctor.Report, conn *bus.Conn) {
	if d.AcceptDamage {
		if !d.Embedded() {
			report.Add("damage", doctor.Fail, "run it on the machine with the data directory, without --nats", "--accept-damage applies to an embedded server only")
		} else if err := natsd.AcceptDamage(d.Dir()); err != nil {
			report.Add("damage", doctor.Fail, "check the permissions of the directory", "%v", err)
		}
	}
	all, err := d.Damage(ctx, conn, maxStreamSize)
	if err != nil {
		report.Add("damage", doctor.Fail, "see the checks above", "%v", err)
		return
	}
	report.Damage(all, maxStreamSize)
}

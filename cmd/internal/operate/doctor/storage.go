package doctor

import (
	"context"

	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/deltalog"
)

// Disk checks the free bytes of the disk with the directory dir of an embedded server. The server rejects writes if fewer
// than reserve bytes are free. A non-nil err means that the disk could not be read.
func (x *Report) Disk(dir string, free, reserve uint64, err error) {
	const fix = "free space on the disk, or move the directory to a larger one"
	switch {
	case err != nil:
		x.Add("disk", Warn, "", "read the free space of %s: %v", dir, err)
	case free < reserve:
		x.Add("disk", Fail, fix+": the server accepts writes a second later", "%s has %d MiB free, less than the reserve of %d MiB: the server rejects writes", dir, free>>20, reserve>>20)
	case free < 2*reserve:
		x.Add("disk", Fail, fix+": a full disk stops the pipeline", "%s has %d MiB free", dir, free>>20)
	case free < 8*reserve:
		x.Add("disk", Warn, fix, "%s has %d MiB free", dir, free>>20)
	default:
		x.Add("disk", OK, "", "%s has %d GiB free", dir, free>>30)
	}
}

// Damage adds a check for each damage of a stream. maxRead is the argument of CheckDamage.
func (x *Report) Damage(all []Damage, maxRead uint64) {
	for _, d := range all {
		switch {
		case d.Lost:
			x.Add("damage", Fail, DamageFix, "%s", d)
		case d.Repaired:
			x.Add("damage", Warn, "no message is lost; clear this warning with 'debrief doctor --accept-damage'", "%s", d)
		default:
			x.Add("damage", Warn, "restore a backup unless the messages were deleted on purpose; the warning ends when their neighbours expire", "%s", d)
		}
	}
	if len(all) == 0 {
		x.Add("damage", OK, "", "no stream has lost a message; streams of up to %d GiB were read completely", maxRead>>30)
	}
}

// DamageFindings returns the damage that concerns a playbook as findings of its verification.
func DamageFindings(all []Damage) (findings []deltalog.Finding) {
	for _, d := range all {
		if d.Repaired || !playbookStreams[d.Stream] {
			continue
		}
		severity := deltalog.Missing
		if d.Lost {
			severity = deltalog.Broken
		}
		findings = append(findings, deltalog.Finding{Severity: severity, Code: deltalog.FindingDamagedStream, Text: d.String() + ": " + DamageFix})
	}
	return findings
}

// playbookStreams are the streams from which a playbook is learned, and those that store it.
var playbookStreams = map[string]bool{
	events.StreamExecutions: true, events.StreamReflections: true, events.StreamDeltas: true, "KV_" + events.BucketPlaybook: true,
}

// Playbooks verifies every playbook.
func (x *Report) Playbooks(ctx context.Context, store *deltalog.Store) {
	books, err := store.AllBooks(ctx)
	if err != nil {
		x.Add("playbooks", Fail, "see the checks above", "%v", err)
		return
	}
	sound := 0
	for _, b := range books {
		v, err := store.Verify(ctx, b)
		if err != nil {
			x.Add("playbook "+string(b), Fail, "see the checks above", "%v", err)
		} else if x.addFindings(v) {
			sound++
		}
	}
	if len(books) == 0 {
		x.Add("playbooks", OK, "", "there are none yet")
		return
	}
	if sound == len(books) {
		x.Add("playbooks", OK, "", "%s, each with a complete log and an up-to-date view", term.Plural(sound, "playbook"))
	}
}

// maxFindings is the maximum number of findings that the report shows for a playbook.
const maxFindings = 5

// addFindings adds the findings of the verification of a playbook, without notes. It reports whether there are only notes.
func (x *Report) addFindings(v *deltalog.Verification) bool {
	bad := 0
	for _, f := range v.Findings {
		r := Warn
		switch f.Severity {
		case deltalog.Note:
			continue
		case deltalog.Broken:
			r = Fail
		}
		bad++
		if bad <= maxFindings {
			x.Add("playbook "+string(v.Book), r, "'debrief playbook verify --book "+string(v.Book)+"' shows all", "%s", f.Text)
		}
	}
	return bad == 0
}

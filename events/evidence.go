package events

import (
	"cmp"

	"debrief/playbook"
	"debrief/playbook/text"
)

// Cover returns the cover for the delta that contains the reflection. seq is the stream sequence of the reflection.
// The cover has the id of the feedback, or else of the sample. These depend only on the ids of the client, so the
// Curator recognizes a copy with another sequence or from another reflector version.
func (r *Reflection) Cover(seq uint64) playbook.Cover {
	return playbook.Cover{ID: string(cmp.Or(r.Feedback, r.SampleID())), Seq: seq, Evidence: r.Evidence()}
}

// Evidence returns the part of the reflection that a delta stores in its cover.
func (r *Reflection) Evidence() *playbook.Evidence {
	return &playbook.Evidence{
		Execution: string(r.Handle), Sample: string(r.SampleID()), Owner: r.Owner, User: clipName(r.User), Session: clipName(r.Session),
		Source: clipName(r.Origin.Source), Inferred: r.Outcome.Inferred, Excerpt: excerpt(cmp.Or(r.Question, r.KeyInsight, r.ErrorIdentification)),
		Outcome: string(r.Outcome.Label), Score: r.Outcome.Score, Reflector: text.Clip(r.Reflector, 64), Model: text.Clip(r.Model, 64),
		FeedbackSeq: r.FeedbackSeq, Control: r.Control, Judge: r.Outcome.Judge(), Compared: r.OtherRun.evidence(),
	}
}

// Evidence returns the part of an execution with a handle that a delta stores in a cover.
func (e *Execution) Evidence(h Handle) playbook.Evidence {
	return playbook.Evidence{
		Execution: string(h), Sample: string(e.SampleID()), Owner: e.Owner, User: clipName(e.User), Session: clipName(e.Session),
		Source: clipName(e.Origin.Source), Excerpt: excerpt(e.Question), Outcome: string(e.Outcome.Label), Score: e.Outcome.Score,
		Inferred: e.Outcome.Inferred, Control: e.InControl(), Judge: e.Outcome.Judge(),
	}
}

// evidence returns the part of the run that a delta stores. It is nil for nil.
func (o *OtherRun) evidence() *playbook.ComparedRun {
	if o == nil {
		return nil
	}
	return &playbook.ComparedRun{Execution: string(o.Execution), User: clipName(o.User), Session: clipName(o.Session)}
}

// Evidence returns the facts about the execution behind the note that decide whether a prompt may contain its texts.
func (n *Note) Evidence() *playbook.Evidence {
	return &playbook.Evidence{
		Execution: string(n.Execution), Sample: string(n.Sample), Owner: n.Owner, User: n.User, Session: n.Session, Source: n.Source,
		Inferred: n.Inferred, Model: n.Model, Compared: n.OtherRun.evidence(),
	}
}

// maxExcerpt is the maximum length of a question in Evidence, in bytes. Similar tasks are found by these words.
const maxExcerpt = 320

// excerpt returns the beginning and the end of a question as one line.
func excerpt(question string) string {
	return text.Ends(text.Line(question, len(question)), maxExcerpt)
}

func clipName(name string) string { return text.Clip(name, playbook.MaxEvidenceName) }

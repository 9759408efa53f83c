package propose

import (
	"slices"

	"debrief/playbook"
	"debrief/playbook/text"
)

// BulletTasks are the tasks that a bullet was learned from, in a prompt.
type BulletTasks struct {
	Bullet playbook.BulletID `json:"bullet_id"`
	Tasks  []string          `json:"learned_from"`
}

// Limits of the tasks behind bullets in a prompt.
const (
	maxTasks       = 2   // of one bullet
	maxTask        = 160 // bytes
	maxTaskBullets = 40  // bullets
)

// taskLine returns the beginning and the end of a question as one line.
func taskLine(question string, limit int) string {
	return text.Ends(text.Line(question, len(question)), limit)
}

// taskLog holds the executions behind the newest reflections of a playbook, so that a model sees behind each text the tasks that it comes
// from. The zero value is empty.
type taskLog struct {
	bySeq map[uint64]*playbook.Evidence // by the sequence of the reflection
	order []uint64                      // of bySeq, oldest first
}

// maxTaskLog is the maximum number of executions in a taskLog, with at most 320 bytes of a question each.
const maxTaskLog = 4096

// add adds the executions that a delta covers.
func (l *taskLog) add(d *playbook.Delta) {
	for i := range d.Covers {
		c := &d.Covers[i]
		if c.Evidence == nil || c.Evidence.Excerpt == "" || l.bySeq[c.Seq] != nil {
			continue
		}
		if l.bySeq == nil {
			l.bySeq = make(map[uint64]*playbook.Evidence)
		}
		l.bySeq[c.Seq] = c.Evidence
		l.order = append(l.order, c.Seq)
		if len(l.order) > maxTaskLog {
			delete(l.bySeq, l.order[0])
			l.order = l.order[1:]
		}
	}
}

// learnedFrom returns the tasks that a bullet was learned from, the newest first, at most maxTasks. It leaves out forgotten executions, and those of
// a source that is not trusted: no model sees their texts.
func (l *taskLog) learnedFrom(b *playbook.Bullet, a *playbook.Admission) (tasks []string) {
	for _, seq := range slices.Backward(b.LearnedFrom) {
		e := l.bySeq[seq]
		if e == nil || a.Forgets(e) || a.Policy.Level(e.Source, e.Inferred) == playbook.Untrusted {
			continue
		}
		if task := taskLine(e.Excerpt, maxTask); !slices.Contains(tasks, task) {
			tasks = append(tasks, task)
		}
		if len(tasks) == maxTasks {
			break
		}
	}
	return tasks
}

package propose

import (
	"maps"
	"slices"
	"strings"

	"debrief/playbook"
	"debrief/playbook/text"
)

// BulletTasks are the tasks that a bullet was learned from.
type BulletTasks struct {
	Bullet playbook.BulletID `json:"bullet_id"`
	Tasks  []string          `json:"learned_from"`
}

// Limits of the tasks in a prompt.
const (
	maxTasks       = 4      // behind one bullet or proposal
	maxTask        = 240    // bytes of one of these
	maxTaskBullets = 40     // bullets
	maxTaskBytes   = 12_800 // of the tasks behind all bullets: those of the best matches come first
)

// oneLine returns a question as one line.
func oneLine(question string) string { return text.Line(question, len(question)) }

// phraseWords is the number of neighbouring words in a phrase.
const phraseWords = 5

// sharedWords are the phrases that all tasks of a prompt have, such as the instructions of a data set. A prompt shows them once, so
// that the room for a task is left for the facts that tell it apart.
type sharedWords struct {
	phrases map[string]bool
	first   string // a task, to show the phrases in their order
}

// sharedWordsOf returns the words that tasks share, each task as one line. A single task shares none.
func sharedWordsOf(tasks []string) sharedWords {
	tasks = slices.DeleteFunc(slices.Clone(tasks), func(task string) bool { return task == "" })
	slices.Sort(tasks)
	if tasks = slices.Compact(tasks); len(tasks) < 2 {
		return sharedWords{}
	}
	counts := map[string]int{} // by phrase: n if each of the first n tasks has it
	for i, task := range tasks {
		words := strings.Fields(task)
		for k := range len(words) - phraseWords + 1 {
			if phrase := strings.Join(words[k:k+phraseWords], " "); counts[phrase] == i {
				counts[phrase] = i + 1
			}
		}
	}
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n < len(tasks) })
	shared := sharedWords{phrases: make(map[string]bool, len(counts)), first: tasks[0]}
	for phrase := range counts {
		shared.phrases[phrase] = true
	}
	return shared
}

// split returns the words of a task, and which of them are left out: those of shared phrases. In a task that is stored without its middle, the
// words beside the ellipsis may be cut. Such a word is left out too if a shared phrase is on its other side.
func (s sharedWords) split(task string) (words []string, isShared []bool) {
	words = strings.Fields(task)
	isShared = make([]bool, len(words))
	for k := range len(words) - phraseWords + 1 {
		if s.phrases[strings.Join(words[k:k+phraseWords], " ")] {
			for i := range phraseWords {
				isShared[k+i] = true
			}
		}
	}
	for i, word := range words {
		if word != text.Ellipsis || len(s.phrases) == 0 {
			continue
		}
		isShared[i] = true
		if i > 1 && isShared[i-2] {
			isShared[i-1] = true
		}
		if i+2 < len(words) && isShared[i+2] {
			isShared[i+1] = true
		}
	}
	return words, isShared
}

// part returns the words of a task that are shared or not, with an ellipsis for each gap.
func (s sharedWords) part(task string, shared bool) string {
	words, isShared := s.split(task)
	var kept []string
	for i, word := range words {
		if isShared[i] == shared && word != text.Ellipsis {
			kept = append(kept, word)
		} else if n := len(kept); n == 0 || kept[n-1] != text.Ellipsis {
			kept = append(kept, text.Ellipsis)
		}
	}
	return strings.Join(kept, " ")
}

// line returns the words of a task that other tasks lack, at most limit bytes of them.
func (s sharedWords) line(task string, limit int) string {
	if len(s.phrases) > 0 {
		task = s.part(task, false)
	}
	return text.Ends(task, limit)
}

// write writes a section with the shared words, if there are any.
func (s sharedWords) write(out *strings.Builder) {
	if len(s.phrases) > 0 {
		line := struct {
			All string `json:"all_tasks"`
		}{text.Ends(s.part(s.first, true), 2*maxQuestion)}
		writeSection(out, "What all tasks below have in common, left out of them", []string{jsonLine(line)})
	}
}

// taskLines returns a line for each bullet with its tasks, up to maxTaskBytes.
func (s sharedWords) taskLines(all []BulletTasks) (lines []string) {
	left := maxTaskBytes
	for _, b := range all {
		shown := BulletTasks{Bullet: b.Bullet}
		for _, task := range b.Tasks {
			own := s.line(task, maxTask)
			if left < len(own) {
				break
			}
			left -= len(own)
			shown.Tasks = append(shown.Tasks, own)
		}
		if len(shown.Tasks) > 0 {
			lines = append(lines, jsonLine(shown))
		}
	}
	return lines
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

// learnedFrom returns the tasks that a bullet was learned from, at most maxTasks, each as one line: first the one that gave rise to it,
// then the newest ones. A bullet that corrects another one was learned from the tasks of that one, too. learnedFrom leaves out forgotten
// executions, and those of a source that is not trusted: no model sees their texts.
func (l *taskLog) learnedFrom(b *playbook.Bullet, p *playbook.Playbook) (tasks []string) {
	admission := p.Admission()
	seqs := slices.Clone(b.LearnedFrom)
	known := map[playbook.BulletID]bool{b.ID: true} // an import can have a cycle
	for old := p.Bullet(b.Replaces); old != nil && !known[old.ID]; old = p.Bullet(old.Replaces) {
		known[old.ID] = true
		seqs = append(slices.Clone(old.LearnedFrom), seqs...)
	}
	if len(seqs) > 1 {
		slices.Reverse(seqs[1:])
	}
	for _, seq := range seqs {
		e := l.bySeq[seq]
		if e == nil || slices.Contains(tasks, e.Excerpt) || admission.Forgets(e) {
			continue
		}
		if admission.Policy.Level(e.Source, e.Inferred) == playbook.Untrusted {
			continue
		}
		tasks = append(tasks, e.Excerpt)
		if len(tasks) == maxTasks {
			break
		}
	}
	return tasks
}

package generator

import (
	"context"
	"slices"
	"time"

	"debrief/playbook"
	"debrief/playbook/recall"
)

// The rankings of a playbook are by past tasks, by words, by conditions and by embeddings. Which of them finds the right bullets differs between families
// of tasks. So their reliability is measured on recent tasks that cited bullets with success. The reliability of a ranking is the share of
// these bullets that it has among its first places for the task. The ranking by past tasks is asked before a task is added to it, so that
// no task finds itself. Such an evaluation, first predict and then learn, is prequential (Dawid, "Statistical theory: the prequential
// approach", 1984).
//
// Only bullets that were shown are cited, and the rankings decide which are shown. So even an unreliable ranking keeps a part of the
// prompt, and bullets that were never tried have another part; see package selection.
const (
	// maxMeasured is the number of tasks that reliability is measured on, the newest.
	maxMeasured = 64
	// reliablePlaces is the number of first places of a ranking in which a bullet counts as found: about a short prompt.
	reliablePlaces = 32
	// priorFound is a number of bullets that all rankings count as found. Without evidence all rankings are equal.
	priorFound = 4
	// unnamedReliability is the reliability of the ranking by conditions; see recall.Unnamed. It is not measured: a past
	// task has added its words to that ranking by then. It is below 1, so that the first places of reliable rankings come first.
	unnamedReliability = 0.9
)

// citedTask is a past task with the bullets that it cited with success.
type citedTask struct {
	question string
	bullets  []playbook.BulletID
	// found is parallel to bullets: the ranking by past tasks had the bullet among its first places before the task was added to it.
	found []bool
}

// citedTasks returns the tasks of a delta that cited bullets with success.
func citedTasks(d *playbook.Delta) (tasks []*citedTask) {
	byCover := make(map[int]*citedTask)
	for i := range d.Ops {
		op := &d.Ops[i]
		if op.Kind != playbook.Tag || op.Helpful <= 0 {
			continue
		}
		for _, cover := range op.Support {
			if cover < 0 || cover >= len(d.Covers) {
				continue
			}
			task := d.Covers[cover].Evidence
			if task == nil || task.Excerpt == "" {
				continue
			}
			t := byCover[cover]
			if t == nil {
				t = &citedTask{question: task.Excerpt}
				byCover[cover] = t
				tasks = append(tasks, t)
			}
			t.bullets = append(t.bullets, op.Bullet)
		}
	}
	return tasks
}

// reliability is the share of cited bullets that a ranking had found: found of all.
type reliability struct{ found, all int }

func (r *reliability) count(found bool) {
	r.all++
	if found {
		r.found++
	}
}

// value returns the reliability, above 0 and at most 1.
func (r reliability) value() float64 {
	return float64(r.found+priorFound) / float64(r.all+priorFound)
}

// measureTimeout bounds the wait for the embeddings of a measurement.
const measureTimeout = 2 * time.Second

// measure returns the reliability of each ranking, in the order of rankings.
func (ix *playbookIndex) measure(ctx context.Context, tasks []*citedTask) []float64 {
	vectors := ix.questionVectors(ctx, tasks)
	var byTasks, byWords, byVector reliability
	for i, t := range tasks {
		var vector []float32
		if vectors != nil {
			vector = vectors[i]
		}
		words, near := ix.firstPlaces(t.question, vector)
		for k, id := range t.bullets {
			if !ix.has(id) {
				continue // removed since
			}
			byTasks.count(t.found[k])
			byWords.count(slices.Contains(words, string(id)))
			if vector != nil {
				byVector.count(slices.Contains(near, string(id)))
			}
		}
	}
	return []float64{byTasks.value(), byWords.value(), unnamedReliability, byVector.value()}
}

// questionVectors returns the embeddings of the questions. It returns nil if these or the embeddings of the bullets are unavailable.
func (ix *playbookIndex) questionVectors(ctx context.Context, tasks []*citedTask) [][]float32 {
	if ix.embeddings.embedder == nil || len(tasks) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	select {
	case <-ix.queue.whenIdle():
	case <-ctx.Done():
		return nil
	}
	questions := make([]string, len(tasks))
	for i, t := range tasks {
		questions[i] = t.question
	}
	vectors, err := ix.embeddings.get(ctx, questions)
	if err != nil {
		ix.embeddings.log.Debug().Err(err).Msg("measure reliability of embeddings: trying again later")
		return nil
	}
	return vectors
}

// firstPlaces returns the bullets in the first places of the rankings by words and by vector.
func (ix *playbookIndex) firstPlaces(question string, vector []float32) (words, near []string) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, match := range ix.words.Top(question, reliablePlaces) {
		words = append(words, match.Key)
	}
	if vector == nil {
		return words, nil
	}
	found, err := ix.vectors.Search(recall.Query{Vector: vector, Model: ix.embeddings.modelName(vector), Limit: reliablePlaces})
	if err != nil {
		return words, nil // a prompt warns about it
	}
	for _, hit := range found.Hits {
		near = append(near, hit.Key)
	}
	return words, near
}

func (ix *playbookIndex) has(id playbook.BulletID) bool {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.indexed[id] != nil
}

package generator

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/recall"
	"debrief/playbook/similar"
)

// playbookIndex is the selection index of one playbook. It holds everything that does not depend on a task. A new
// version updates only the changed bullets.
type playbookIndex struct {
	embeddings *embeddingCache
	queue      *embedQueue // bullets that wait for a vector

	mu      sync.RWMutex // prompts lock it for reading, an update for writing; it guards the fields below
	version uint64
	bullets *selection.Index
	indexed map[playbook.BulletID]*playbook.Bullet // the bullets in the index
	words   recall.WordIndex                       // of sections and contents
	// conditions has the condition of each bullet, or the content of a bullet without a condition. conditionRanker ranks bullets by these texts; it
	// is nil until the past tasks are read.
	conditions      recall.WordIndex
	conditionRanker atomic.Pointer[recall.Unnamed]
	vectors         *recall.Index            // embeddings of bullets; empty without an embedder
	notes           admit.Book               // decides on reflections
	copies          *lru.Cache[string, bool] // results of hasCopy in this version
}

// maxCopies is the size of playbookIndex.copies. Contexts of one version mostly ask for the same newest notes.
const maxCopies = 4096

// hasCopy reports whether a bullet of any status says about the same as a text. A prompt then does without the text: it can have the bullet
// instead, unless the bullet is hidden, and then the reason for that holds for the text too.
func (ix *playbookIndex) hasCopy(text string) bool {
	found, ok := ix.copies.Get(text)
	if !ok {
		found = ix.notes.HasHiddenCopy(text) || ix.hasShownCopy(text)
		ix.copies.Add(text, found)
	}
	return found
}

// hasShownCopy reports whether a bullet in the index says about the same as a text.
func (ix *playbookIndex) hasShownCopy(text string) bool {
	prepared := similar.Prepare(text)
	for _, m := range ix.words.Top(text, nearestCopies) {
		b := ix.indexed[playbook.BulletID(m.Key)]
		if b != nil && prepared.Similarity(b.Content) >= admit.NearCopy {
			return true
		}
	}
	return false
}

// nearestCopies is the number of bullets that hasShownCopy compares with a text: those with the most words of it.
const nearestCopies = 8

// newPlaybookIndex returns an empty index. votes and retry are as in playbookCache.
func newPlaybookIndex(embeddings *embeddingCache, votes bool, retry time.Duration) *playbookIndex {
	bullets := selection.NewIndex(votes)
	ix := &playbookIndex{
		embeddings: embeddings, bullets: bullets, indexed: make(map[playbook.BulletID]*playbook.Bullet),
		words: recall.WordIndex{IgnoreCommon: true}, vectors: recall.New(0),
	}
	ix.copies, _ = lru.New[string, bool](maxCopies) // fails only for a size of 0
	ix.queue = newEmbedQueue(embeddings, retry, ix.loadItem, ix.storeVector)
	return ix
}

// update changes the index to a version of the playbook. The caller holds mu.
func (ix *playbookIndex) update(p *playbook.Playbook) {
	changed, dropped := ix.bullets.Update(p)
	ix.version = p.Version()
	ix.copies.Purge()
	ix.notes.Update(p)
	for _, id := range dropped {
		delete(ix.indexed, id)
		ix.words.Drop(string(id))
		ix.conditions.Drop(string(id))
		ix.vectors.Drop(string(id))
	}
	for _, b := range changed {
		previous := ix.indexed[b.ID]
		ix.indexed[b.ID] = b
		if previous != nil && previous.Content == b.Content && previous.Section == b.Section {
			continue // the indexed texts are the same: the condition is a part of the content
		}
		ix.words.Put(string(b.ID), b.Section+" "+b.Content)
		ix.conditions.Put(string(b.ID), cmp.Or(b.When, b.Content))
		if ix.embeddings.embedder != nil {
			ix.vectors.Drop(string(b.ID))
			ix.queue.add(string(b.ID))
		}
	}
}

// loadItem returns the text of a bullet to embed, nil if the bullet was removed.
func (ix *playbookIndex) loadItem(_ context.Context, key string) (*recall.Item, error) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	b := ix.indexed[playbook.BulletID(key)]
	if b == nil {
		return nil, nil // removed since
	}
	return &recall.Item{Key: key, Text: b.Content}, nil
}

// storeVector stores the vector of a bullet, unless the bullet has changed since.
func (ix *playbookIndex) storeVector(i recall.Item) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if b := ix.indexed[playbook.BulletID(i.Key)]; b == nil || b.Content != i.Text {
		return
	}
	i.Text = "" // the word index has the text
	if err := ix.vectors.Put(i); err != nil {
		ix.embeddings.log.Warn().Err(err).Str("bullet", i.Key).Msg("store embedding of bullet: using words only")
	}
}

// waitEmbedded waits at most timeout until all bullets have vectors. It returns at once if the query has no vector.
func (ix *playbookIndex) waitEmbedded(ctx context.Context, q *queryEmbedding, timeout time.Duration) {
	if q.vector == nil {
		return
	}
	select {
	case <-ix.queue.whenIdle():
	case <-ctx.Done():
	case <-time.After(timeout):
	}
}

// Limits of applicable. A bullet is predicted to apply to a task if it has at least minVoteShare of the votes of the nearest past tasks, see
// evidenceHit.Applies. A bullet that applies to fewer than minTasks past tasks is too new for this rule. It is predicted to apply if it is
// among the nearestNew best bullets by words or by vectors.
const (
	minVoteShare = 0.25
	minTasks     = 4
	nearestNew   = 3
)

// applicable returns the bullets that are predicted to apply to a task, for an experiment. If tasks is nil, all bullets count as new.
func (ix *playbookIndex) applicable(q *queryEmbedding, tasks *taskEvidence) (ids []playbook.BulletID) {
	if tasks != nil {
		ids = tasks.applicable(q)
	}
	add := func(key string) {
		id := playbook.BulletID(key)
		if !slices.Contains(ids, id) && (tasks == nil || tasks.count(id) < minTasks) {
			ids = append(ids, id)
		}
	}
	near := ix.nearWords(q)
	for _, match := range near[:min(nearestNew, len(near))] {
		add(match.Key)
	}
	if ix.embeddings.embedder != nil && q.vector != nil {
		if found, err := ix.vectors.Search(recall.Query{Vector: q.vector, Model: q.modelName, Limit: nearestNew}); err == nil {
			for _, hit := range found.Hits {
				add(hit.Key)
			}
		}
	}
	return ids
}

// maxRanked is the number of bullets in one ranking. It exceeds the number in a prompt of a usual size.
const maxRanked = 200

// nearWords returns the bullets near a query by words, the best first.
func (ix *playbookIndex) nearWords(q *queryEmbedding) []recall.Match {
	if q.byWords == nil {
		q.byWords = ix.words.Top(q.text, maxRanked)
	}
	return q.byWords
}

// byConditions returns the ranking by conditions, see recall.Unnamed. It is nil until the past tasks are read.
func (ix *playbookIndex) byConditions(q *queryEmbedding) selection.Ranking {
	ranker := ix.conditionRanker.Load()
	if ranker == nil {
		return nil
	}
	var list selection.Ranking
	for _, match := range ranker.Top(q.text, maxRanked) {
		list = append(list, selection.Ranked{Bullet: playbook.BulletID(match.Key)}) // without a score, because the list also has bullets without a word of the query
	}
	return list
}

// rankings returns four rankings of the bullets for a query: by past tasks, by words, by conditions, and, if there is an embedder, by vectors.
func (ix *playbookIndex) rankings(q *queryEmbedding, tasks *taskEvidence, warns *warnings) []selection.Ranking {
	near := ix.nearWords(q)
	byWords := make(selection.Ranking, 0, len(near))
	for _, match := range near {
		byWords = append(byWords, selection.Ranked{Bullet: playbook.BulletID(match.Key), Score: match.Score})
	}
	all := []selection.Ranking{tasks.ranking(q, warns), byWords, ix.byConditions(q)}
	if ix.embeddings.embedder == nil || q.vector == nil {
		return all
	}
	found, err := ix.vectors.Search(recall.Query{Vector: q.vector, Model: q.modelName, Limit: maxRanked})
	if err != nil {
		warns.add("bullets: %s", err)
	}
	byVectors := make(selection.Ranking, 0, len(found.Hits))
	for _, hit := range found.Hits {
		byVectors = append(byVectors, selection.Ranked{Bullet: playbook.BulletID(hit.Key), Score: hit.Similarity})
	}
	compared := ix.vectors.Stats().Items - found.NotCompared
	if without := ix.bullets.Len() - compared; without > 0 {
		warns.add("bullets: %d of %d have no vector of %s, found by words only", without, ix.bullets.Len(), q.modelName)
	}
	return append(all, byVectors)
}

// reliabilities are the reliabilities of the rankings, in the order of rankings. That of the ranking by conditions is below 1, so that the
// first bullets of the other rankings come before its first bullet.
var reliabilities = []float64{1, 1, 0.9, 1}

package generator

import (
	"context"
	"sync"
	"time"

	"debrief/generator/prompt/selection"
	"debrief/playbook"
	"debrief/playbook/recall"
)

// playbookIndex is the selection index of one playbook. It holds everything that does not depend on a task. A new
// version updates only the changed bullets.
type playbookIndex struct {
	embeddings *embeddingCache
	queue      *embedQueue // bullets that wait for a vector

	mu      sync.RWMutex // prompts read, an update writes
	version uint64
	bullets *selection.Index
	indexed map[playbook.BulletID]*playbook.Bullet // the bullets in the index
	words   recall.WordIndex
	vectors *recall.Index // embeddings of bullets; empty without an embedder
}

func newPlaybookIndex(embeddings *embeddingCache, votes bool, retry time.Duration) *playbookIndex {
	bullets := selection.NewIndex()
	if votes {
		bullets = selection.NewIndexWithVotes()
	}
	ix := &playbookIndex{
		embeddings: embeddings, bullets: bullets, indexed: make(map[playbook.BulletID]*playbook.Bullet),
		vectors: recall.New(recall.Options{Excerpt: 1}),
	}
	ix.queue = newEmbedQueue(embeddings, retry, ix.loadItem, ix.storeVector)
	return ix
}

// update changes the index to a version of the playbook. The caller holds mu.
func (ix *playbookIndex) update(p *playbook.Playbook) {
	changed, dropped := ix.bullets.Update(p)
	ix.version = p.Version()
	for _, id := range dropped {
		delete(ix.indexed, id)
		ix.words.Drop(string(id))
		ix.vectors.Drop(string(id))
	}
	for _, b := range changed {
		previous := ix.indexed[b.ID]
		ix.indexed[b.ID] = b
		if previous != nil && previous.Content == b.Content && previous.Section == b.Section {
			continue // only its votes changed
		}
		ix.words.Put(string(b.ID), b.Section+" "+b.Content)
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

// applicability returns a function that rates from 0 to 1 how well a bullet applies to a query. It uses words only,
// because an experiment must not depend on the progress of the embeddings.
//
// A sentence is rated by the share of its words in the query. A longer text applies if it is among the MaxTrials
// nearest bullets. None of the 6 skills of a published playbook reaches the share on any of 150 recorded
// conversations; without this rule they would never be tested.
//
// The distinctive words of a sentence, such as "list price", may be in no query. So the rating increases with the
// number of requests without an experiment. This selects the queries that are nearest to the bullet.
func (ix *playbookIndex) applicability(query string) func(*playbook.Bullet) float64 {
	covered := sync.OnceValue(func() *recall.Coverage { return ix.words.Coverage(query) })
	near := sync.OnceValue(func() map[string]bool {
		set := make(map[string]bool)
		for _, match := range ix.words.Top(query, selection.MaxTrials) {
			set[match.Key] = true
		}
		return set
	})
	return func(b *playbook.Bullet) float64 {
		share, words := covered().Share(b.Content)
		switch {
		case share >= selection.MinApplicability:
			return share
		case words > recall.MaxCoverageWords && near()[string(b.ID)]:
			return selection.MinApplicability
		}
		return min(share*underTested(b), selection.MinApplicability)
	}
}

// After this many requests, plus this many for each experiment run, a bullet should have had an experiment.
const (
	expectedRequests       = 16
	expectedRequestsPerRun = 2
)

// underTested returns the ratio of actual to expected requests of a bullet, at least 1. It depends only on the
// playbook, so that all processes decide alike.
func underTested(b *playbook.Bullet) float64 {
	k := b.CurrentExperiment()
	tried := k.Shown.Count() + k.Withheld.Count() + k.Open.Count()
	return max(1, float64(k.Confirmations)/float64(expectedRequests+expectedRequestsPerRun*tried))
}

// maxRanked is the number of bullets in one ranking. It exceeds the number in a prompt of a usual size.
const maxRanked = 200

// rankings returns the bullets near a query: by past tasks, by words, and by vectors if there is an embedder.
func (ix *playbookIndex) rankings(q *queryEmbedding, tasks *taskEvidence, warns *warnings) []selection.Ranking {
	all := []selection.Ranking{tasks.ranking(q.text, warns), nil}
	for _, match := range ix.words.Top(q.text, maxRanked) {
		all[1] = append(all[1], selection.Ranked{Bullet: playbook.BulletID(match.Key), Score: match.Score})
	}
	if ix.embeddings.embedder == nil || q.vector == nil {
		return all
	}
	found, err := ix.vectors.Search(recall.Query{Vector: q.vector, Model: q.modelName, Limit: maxRanked})
	if err != nil {
		warns.add("bullets: %s", err)
	}
	var near selection.Ranking
	for _, hit := range found.Hits {
		near = append(near, selection.Ranked{Bullet: playbook.BulletID(hit.Key), Score: hit.Similarity})
	}
	compared := ix.vectors.Stats().Items - found.NotCompared
	if without := ix.bullets.Len() - compared; without > 0 {
		warns.add("bullets: %d of %d have no vector of %s, found by words only", without, ix.bullets.Len(), q.modelName)
	}
	return append(all, near)
}

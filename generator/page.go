package generator

import (
	"context"
	"iter"
	"sync"
	"time"

	"debrief/generator/selection"
	"debrief/playbook"
	"debrief/playbook/recall"
)

// page is a playbook laid out for prompts: what does not depend on a task is worked out once a version, and of the
// bullets that changed alone.
type page struct {
	vectors *vectors
	debts   *debts // vectors of bullets

	mu      sync.RWMutex // prompts read, a new version writes
	version uint64
	index   *selection.Index
	bullets map[playbook.BulletID]*playbook.Bullet // that are in it
	words   recall.Words
	meaning *recall.Index // vectors of bullets, by an embedder; empty without one
}

func newPage(v *vectors, retry time.Duration) *page {
	pg := &page{
		vectors: v, index: selection.NewIndex(), bullets: make(map[playbook.BulletID]*playbook.Bullet),
		meaning: recall.New(recall.Options{Excerpt: 1}),
	}
	pg.debts = newDebts(v, retry, pg.item, pg.pay)
	return pg
}

// turn brings the page to a version.
func (pg *page) turn(p *playbook.Playbook) {
	changed, dropped := pg.index.Update(p)
	pg.version = p.Version()
	for _, id := range dropped {
		delete(pg.bullets, id)
		pg.words.Drop(string(id))
		pg.meaning.Drop(string(id))
	}
	for _, b := range changed {
		was := pg.bullets[b.ID]
		pg.bullets[b.ID] = b
		if was != nil && was.Content == b.Content && was.Section == b.Section {
			continue // it was voted on
		}
		pg.words.Put(string(b.ID), b.Section+" "+b.Content)
		if pg.vectors.embedder != nil {
			pg.meaning.Drop(string(b.ID))
			pg.debts.owe(string(b.ID))
		}
	}
}

// item is a bullet as the embedder is to see it.
func (pg *page) item(_ context.Context, key string) (*recall.Item, error) {
	pg.mu.RLock()
	defer pg.mu.RUnlock()
	b := pg.bullets[playbook.BulletID(key)]
	if b == nil {
		return nil, nil // gone since
	}
	return &recall.Item{Key: key, Text: b.Content}, nil
}

// pay takes the vector of a bullet, if that still says the same.
func (pg *page) pay(i recall.Item) {
	pg.mu.RLock()
	defer pg.mu.RUnlock()
	if b := pg.bullets[playbook.BulletID(i.Key)]; b == nil || b.Content != i.Text {
		return
	}
	i.Text = "" // words know it
	if err := pg.meaning.Put(i); err != nil {
		pg.vectors.log.Warn().Err(err).Str("bullet", i.Key).Msg("is found by words alone")
	}
}

// settled waits until the bullets have the vectors that a query is held against, for so long at the most.
func (pg *page) settled(ctx context.Context, q *question, most time.Duration) {
	if q.vector == nil {
		return
	}
	select {
	case <-pg.debts.settled():
	case <-ctx.Done():
	case <-time.After(most):
	}
}

// bears is how far a query, with what it is about, speaks of what a bullet is about. It goes by words alone: what a task
// is tried on must not depend on how far the vectors are.
//
// Of a sentence that is the share of its words that the query covers. A longer piece of advice bears on the queries that
// it is among the nearest bullets to, as many as a context can try: of the 6 skills of a published book none has
// the share on any of 150 recorded conversations, and what is never tried is never judged. The words that tell a sentence
// from others, such as "list price", may be in no query either; so the more often it is asked for, and not tried, the
// smaller a share will do. That finds the queries that speak of it most.
func (pg *page) bears(query string) func(*playbook.Bullet) float64 {
	covered := sync.OnceValue(func() *recall.Coverage { return pg.words.Coverage(query) })
	near := sync.OnceValue(func() map[string]bool {
		set := make(map[string]bool)
		for _, match := range pg.words.Top(query, selection.MaxTrials) {
			set[match.Key] = true
		}
		return set
	})
	return func(b *playbook.Bullet) float64 {
		share, words := covered().Of(b.Content)
		switch {
		case share >= selection.Bearing:
			return share
		case words > recall.Sentence && near()[string(b.ID)]:
			return selection.Bearing
		}
		return min(share*overlooked(b), selection.Bearing)
	}
}

// Of these asks, and of so many a task that it was tried on, a bullet is thought to have its share of trials.
const (
	fairAsks      = 16
	fairAsksATask = 2
)

// overlooked is by how much a bullet is asked for more often than it is tried, 1 of what is tried enough. It goes by the
// book alone, so that every process decides alike.
func overlooked(b *playbook.Bullet) float64 {
	k := b.TheCase()
	tried := k.Shown.N() + k.Withheld.N() + k.Open.N()
	return max(1, float64(k.Seconded)/float64(fairAsks+fairAsksATask*tried))
}

// byMeaning is how many bullets are looked up by their vectors: more than a prompt shows.
const byMeaning = 200

// relevance is how near bullets are to a query: by their words, and by an embedder's vectors where there are any. A
// bullet that is found by both comes twice, and the nearer counts.
func (pg *page) relevance(q *question, missed *remarks) iter.Seq2[playbook.BulletID, float64] {
	var hits []recall.Hit
	if pg.vectors.embedder != nil && q.vector != nil {
		found, err := pg.meaning.Search(recall.Query{Vector: q.vector, Model: q.model, Top: byMeaning})
		if err != nil {
			missed.add("bullets: %s", err)
		}
		hits = found.Hits
		compared := pg.meaning.Stats().Items - found.WithoutVector
		if without := pg.index.Len() - compared; without > 0 {
			missed.add("bullets: %d of %d have no vector of %s, and are found by words alone", without, pg.index.Len(), q.model)
		}
	}
	return func(yield func(playbook.BulletID, float64) bool) {
		for match := range pg.words.Each(q.text) {
			if !yield(playbook.BulletID(match.Key), match.Score) {
				return
			}
		}
		for _, hit := range hits {
			if !yield(playbook.BulletID(hit.Key), hit.Similarity) {
				return
			}
		}
	}
}

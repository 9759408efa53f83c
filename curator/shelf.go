package curator

import (
	"cmp"
	"slices"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/recall"
)

// shelf finds the bullets of a book that bear on an insight, by their words. It follows a playbook as alike does.
type shelf struct {
	words recall.Words
	seen  map[playbook.BulletID]*playbook.Bullet
}

func (s *shelf) follow(p *playbook.Playbook) {
	if s.seen == nil {
		s.seen = make(map[playbook.BulletID]*playbook.Bullet, p.Len())
	}
	for b := range p.All() {
		old := s.seen[b.ID]
		if old == b {
			continue
		}
		if old == nil || old.Content != b.Content || old.Section != b.Section {
			s.words.Put(string(b.ID), playbook.Title(b.Section)+": "+b.Content)
		}
		s.seen[b.ID] = b
	}
	if len(s.seen) == p.Len() {
		return
	}
	for id := range s.seen {
		if p.Bullet(id) == nil {
			s.words.Drop(string(id))
			delete(s.seen, id)
		}
	}
}

// Bounds of what a proposing model sees of the playbook.
const (
	maxContext       = 200    // bullets
	maxContextTokens = 24_000 // of them
	nearEach         = 12     // that bear on one insight
	maxTurnedDown    = 20
	// bearing is how well a text must match an insight to be listed among what was turned down. What has every word of
	// the insight once has about 0.45.
	bearing = 0.2
)

// ranked is a text that was found, for one of several insights.
type ranked struct {
	key   string
	rank  int
	score float64
}

// nearest are the texts that bear on any of the insights: the best of each insight first, each text once.
func nearest(words *recall.Words, insights []string, each int, least float64) []string {
	var all []ranked
	for _, text := range insights {
		for rank, m := range words.Top(text, each) {
			if m.Score >= least {
				all = append(all, ranked{m.Key, rank, m.Score})
			}
		}
	}
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.score, a.score), cmp.Compare(a.key, b.key))
	})
	keys := make([]string, 0, len(all))
	known := make(map[string]bool, len(all))
	for _, r := range all {
		if !known[r.key] {
			known[r.key] = true
			keys = append(keys, r.key)
		}
	}
	return keys
}

func insights(reflections []*events.Reflection) (texts []string) {
	for _, r := range reflections {
		if r.KeyInsight != "" {
			texts = append(texts, clip(r.KeyInsight, maxInsight))
		}
		for _, l := range r.Lessons {
			if l.Content != r.KeyInsight {
				texts = append(texts, clip(l.Content, maxInsight))
			}
		}
	}
	return texts
}

// frame fills in what of the playbook, and of its past, a model is to know to answer a request: the bullets that bear on
// the insights, whoever they are shown to, then those that have done best, as far as there is room.
func (b *book) frame(p *playbook.Playbook, m *memory, in *Request) {
	in.Total = p.Len()
	texts := insights(in.Reflections)
	taken := make(map[playbook.BulletID]bool)
	tokens := 0
	take := func(bullet *playbook.Bullet) {
		if taken[bullet.ID] || len(taken) == maxContext {
			return
		}
		n := b.costs.of(bullet)
		if tokens+n > maxContextTokens {
			return
		}
		tokens += n
		taken[bullet.ID] = true
		if bullet.Shown() {
			in.Bullets = append(in.Bullets, bullet)
		} else {
			in.OnTrial = append(in.OnTrial, bullet)
		}
	}
	for _, key := range nearest(&b.shelf.words, texts, nearEach, 0) {
		bullet := p.Bullet(playbook.BulletID(key))
		switch {
		case bullet == nil || bullet.Status == playbook.Quarantined:
		case bullet.Status == playbook.Retired:
			if len(in.TurnedDown) < maxTurnedDown/2 {
				in.TurnedDown = append(in.TurnedDown, TurnedDown{clip(bullet.Content, maxExcerpt), m.whyRetired(bullet.ID)})
			}
		case bullet.Shown() || bullet.Rule == nil: // what a rule only counts is the rule's
			take(bullet)
		}
	}
	for _, bullet := range p.Top(maxContext) {
		take(bullet)
	}
	for _, key := range nearest(&m.words, texts, nearEach, bearing) {
		if l := m.lapses[key]; l != nil && len(in.TurnedDown) < maxTurnedDown {
			in.TurnedDown = append(in.TurnedDown, TurnedDown{l.text, l.reason})
		}
	}
}

package propose

import (
	"cmp"
	"slices"

	"debrief/curator/draft"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/recall"
	"debrief/playbook/text"
)

// BulletIndex finds the bullets of one playbook that are relevant to an insight. The zero value is an empty index. It is not safe for
// concurrent use.
type BulletIndex struct {
	words recall.WordIndex
	texts playbook.Texts // of the last update
}

// update updates the index to the state p. It indexes only the bullets that have changed since the last call.
func (s *BulletIndex) update(p *playbook.Playbook) {
	s.texts.Update(p, func(b *playbook.Bullet) string { return playbook.SectionTitle(b.Section) + ": " + b.Content }, s.words.Put, s.words.Drop)
}

// Limits on the part of the playbook in a proposal prompt.
const (
	maxContext       = 200    // bullets
	maxContextTokens = 24_000 // of all bullets together
	maxPerInsight    = 12     // search matches for one insight
	maxRejected      = 20     // rejected and retired texts, of which at most half are retired
	// minRejectedScore is the minimum search score of a rejected text. A text that has every word of the insight once
	// scores about 0.45.
	minRejectedScore = 0.2
)

// insightMatch is a text that was found for one of several insights.
type insightMatch struct {
	key   string
	rank  int // among the matches of its insight, from 0
	score float64
}

// nearestTexts returns the keys of the texts that match any of the insights, each key once. The best match of each insight comes first,
// then the second best, up to limit matches of each insight. A match needs a score of at least minScore.
func nearestTexts(words *recall.WordIndex, insights []string, limit int, minScore float64) []string {
	var all []insightMatch
	for _, text := range insights {
		for rank, m := range words.Top(text, limit) {
			if m.Score >= minScore {
				all = append(all, insightMatch{m.Key, rank, m.Score})
			}
		}
	}
	slices.SortFunc(all, func(a, b insightMatch) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.score, a.score), cmp.Compare(a.key, b.key))
	})
	keys := make([]string, 0, len(all))
	known := make(map[string]bool, len(all))
	for _, match := range all {
		if !known[match.key] {
			known[match.key] = true
			keys = append(keys, match.key)
		}
	}
	return keys
}

// insights returns the key insights and lessons of the reflections, each clipped to maxInsight bytes.
func insights(reflections []*events.Reflection) (texts []string) {
	for _, r := range reflections {
		if r.KeyInsight != "" {
			texts = append(texts, text.Excerpt(r.KeyInsight, maxInsight))
		}
		for _, l := range r.Lessons {
			if l.Content != r.KeyInsight {
				texts = append(texts, text.Excerpt(l.Content, maxInsight))
			}
		}
	}
	return texts
}

// addContext adds the context from the playbook and its rejection log to a request, up to the limits. The bullets that were withheld from the
// runs come first, then those that match the insights, shown or not, and then the shown bullets with the best scores.
func (round *Round) addContext(request *Request) {
	p, rejections := round.Playbook, round.Rejections
	request.Total = p.Len()
	texts := insights(request.Reflections)
	included := make(map[playbook.BulletID]bool)
	tokens := 0
	include := func(bullet *playbook.Bullet) {
		if included[bullet.ID] || len(included) == maxContext {
			return
		}
		n := draft.Tokens(bullet)
		if tokens+n > maxContextTokens {
			return
		}
		tokens += n
		included[bullet.ID] = true
		if bullet.Shown() {
			request.Bullets = append(request.Bullets, bullet)
		} else {
			request.Undecided = append(request.Undecided, bullet)
		}
	}
	for _, r := range request.Reflections {
		for _, id := range withheld(r) {
			if bullet := p.Bullet(id); bullet != nil && (bullet.Shown() || bullet.Status == playbook.Probation) {
				include(bullet)
			}
		}
	}
	for _, key := range nearestTexts(&round.Bullets.words, texts, maxPerInsight, 0) {
		bullet := p.Bullet(playbook.BulletID(key))
		switch {
		case bullet == nil || bullet.Status == playbook.Quarantined:
		case bullet.Status == playbook.Retired:
			if reason, ok := rejections.retiredReason(bullet.ID); ok && len(request.Rejected) < maxRejected/2 {
				request.Rejected = append(request.Rejected, RejectedText{Text: text.Excerpt(bullet.Content, screen.MaxExcerpt), Reason: reason})
			}
		default:
			include(bullet)
			if tasks := rejections.tasks.learnedFrom(bullet, p); included[bullet.ID] && len(tasks) > 0 && len(request.Tasks) < maxTaskBullets {
				request.Tasks = append(request.Tasks, BulletTasks{bullet.ID, tasks})
			}
		}
	}
	for _, bullet := range p.Top(maxContext) {
		include(bullet)
	}
	for _, r := range slices.Backward(rejections.merges) {
		lacksBullet := slices.ContainsFunc(r.bullets, func(id playbook.BulletID) bool { return !included[id] })
		if !lacksBullet && len(request.Rejected) < maxRejected {
			request.Rejected = append(request.Rejected, RejectedText{Merge: r.bullets, Reason: r.reason})
		}
	}
	for _, id := range nearestTexts(&rejections.words, texts, maxPerInsight, minRejectedScore) {
		if t := rejections.texts[id]; t != nil && len(request.Rejected) < maxRejected {
			request.Rejected = append(request.Rejected, RejectedText{Text: t.text, Reason: t.reason})
		}
	}
}

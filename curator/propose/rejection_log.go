package propose

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"debrief/curator/screen"
	"debrief/events/redact"
	"debrief/playbook"
	"debrief/playbook/history"
	"debrief/playbook/recall"
	"debrief/playbook/similar"
	"debrief/playbook/text"
)

// RejectionLog holds the texts of a playbook that were rejected or retired recently. Models see them, so that they do not propose the same
// text again and again. It is built from the newest deltas at the time of Load, and from the deltas that this Curator commits later. It
// does not see later deltas of another Curator. The log is bounded and may lose entries; the deltas hold every rejection with its reason.
// It also knows the tasks behind the bullets. The zero value is an empty log. It is not safe for concurrent use.
type RejectionLog struct {
	loaded        bool
	rejectedTexts recentTexts[string] // by wording
	words         recall.WordIndex    // full-text index of rejectedTexts
	texts         similar.Index       // texts that were rejected for good or retired because of their text
	retired       recentTexts[playbook.BulletID]
	tasks         taskLog
}

// refusedText is a text that was rejected, or that of a retired bullet at the last call of update.
type refusedText struct {
	text, reason string
	code         playbook.Reason
}

// recentTexts holds the newest refused texts by their keys.
type recentTexts[K comparable] struct {
	byKey map[K]*refusedText
	order []K // oldest first
}

// put adds a text with a new key. It returns the key that must be removed now, if the number of texts exceeds a limit.
func (r *recentTexts[K]) put(key K, l *refusedText, limit int) (oldest K, exceeds bool) {
	if r.byKey == nil {
		r.byKey = make(map[K]*refusedText)
	}
	r.byKey[key] = l
	r.order = append(r.order, key)
	return r.order[0], len(r.order) > limit
}

// remove removes a text. It returns false if there is none.
func (r *recentTexts[K]) remove(key K) bool {
	if r.byKey[key] == nil {
		return false
	}
	delete(r.byKey, key)
	r.order = slices.DeleteFunc(r.order, func(k K) bool { return k == key })
	return true
}

// Limits of a RejectionLog.
const (
	maxRejectedTexts = 256
	maxRetired       = 512
	// maxRecentDeltas is the number of messages at the end of the delta stream that Load reads. The stream is shared, so
	// some of them belong to other books.
	maxRecentDeltas = 300
)

// Prefixes of the ids in RejectionLog.texts.
const (
	rejectedPrefix = "rejected "
	retiredPrefix  = "bullet "
)

// rejectedBefore begins the sentence for a text that was rejected for good before.
const rejectedBefore = "rejected before: "

// isPermanent reports whether a text with this reason is rejected for good, in every later state of the playbook.
func isPermanent(code playbook.Reason) bool {
	switch code {
	case playbook.ReasonSecret, playbook.ReasonInjection, playbook.ReasonRestated, playbook.ReasonTooShort, playbook.ReasonRejectedText:
		return true
	}
	return false
}

// concernsText reports whether a rejection with this reason says something about the text. If not, the text may be
// proposed again.
func concernsText(code playbook.Reason) bool {
	switch code {
	case playbook.ReasonDeltaFull, playbook.ReasonSuperseded, playbook.ReasonInvalid, playbook.ReasonIgnored, playbook.ReasonUnknownBullet,
		playbook.ReasonExists, playbook.ReasonPinned, playbook.ReasonStatus, playbook.ReasonVoted,
		playbook.ReasonDuplicate, playbook.ReasonSimilar, playbook.ReasonCondition:
		return false
	}
	return true
}

// retiredForText reports whether a bullet with this reason retired because of its text. If not, the same text may be
// added again.
func retiredForText(code playbook.Reason) bool {
	switch code {
	case "", playbook.ReasonTokenBudget, playbook.ReasonTooMany, playbook.ReasonRemoval, playbook.ReasonReplaced,
		playbook.ReasonFails, playbook.ReasonNoBenefit: // the last two may return after enough requests
		return false
	}
	return true
}

// DeltaReader reads the log of a playbook.
type DeltaReader interface {
	// RecentDeltas calls fn in order for the deltas of the playbook that are among the last n messages of the stream.
	RecentDeltas(ctx context.Context, n uint64, fn func(*playbook.Delta)) error
}

// Load adds the newest deltas of the log, unless they are loaded.
func (m *RejectionLog) Load(ctx context.Context, log DeltaReader) error {
	if m.loaded {
		return nil
	}
	if err := log.RecentDeltas(ctx, maxRecentDeltas, m.Add); err != nil {
		return err
	}
	m.loaded = true
	return nil
}

// Add adds the rejections and retirements of a committed delta. Adding the same delta twice has no further effect.
func (m *RejectionLog) Add(d *playbook.Delta) {
	m.tasks.add(d)
	for i := range d.Rejected {
		j := &d.Rejected[i]
		hasText := j.Op.Content != "" && !redact.Marked(j.Op.Content)
		if d.Author == history.Curator && hasText && j.DuplicateOf == "" && concernsText(j.Code) {
			m.addRejected(j.Op.Content, j.Code, j.Reason)
		}
	}
	for i := range d.Ops {
		op := &d.Ops[i]
		switch op.Kind {
		case playbook.SetStatus:
			if op.Status != playbook.Retired {
				m.removeRetired(op.Bullet)
				continue
			}
			code, why := op.Code, op.Reason
			if d.Author != history.Curator {
				code, why = playbook.ReasonPerson, cmp.Or(why, "retired by a person")
			}
			m.addRetired(op.Bullet, code, why)
		case playbook.Remove:
			m.removeRetired(op.Bullet)
		case playbook.Add, playbook.Update, playbook.Merge, playbook.Put:
			if d.Author != history.Curator { // a person accepts the text
				content := op.Content
				if op.PutBullet != nil {
					content = op.PutBullet.Content
				}
				m.removeRejected(rejectedTextKey(content))
			}
		}
	}
}

func rejectedTextKey(text string) string {
	w := playbook.ContentKeyOf(text)
	return string(w[:])
}

// addRejected adds a text. A permanent reason is not replaced by a temporary one, nor by ReasonRejectedText, which only
// refers to the first rejection.
func (m *RejectionLog) addRejected(text string, code playbook.Reason, reason string) {
	key := rejectedTextKey(text)
	if old := m.rejectedTexts.byKey[key]; old != nil {
		if isPermanent(old.code) && (!isPermanent(code) || code == playbook.ReasonRejectedText) {
			return
		}
		m.removeRejected(key)
	}
	m.words.Put(key, text)
	if isPermanent(code) {
		m.texts.Put(rejectedPrefix+key, text)
	}
	if oldest, exceeds := m.rejectedTexts.put(key, &refusedText{text, reason, code}, maxRejectedTexts); exceeds {
		m.removeRejected(oldest)
	}
}

func (m *RejectionLog) removeRejected(key string) {
	if m.rejectedTexts.remove(key) {
		m.words.Drop(key)
		m.texts.Drop(rejectedPrefix + key)
	}
}

func (m *RejectionLog) addRetired(id playbook.BulletID, code playbook.Reason, reason string) {
	m.removeRetired(id)
	if oldest, exceeds := m.retired.put(id, &refusedText{reason: reason, code: code}, maxRetired); exceeds {
		m.removeRetired(oldest)
	}
}

func (m *RejectionLog) removeRetired(id playbook.BulletID) {
	if m.retired.remove(id) {
		m.texts.Drop(retiredPrefix + string(id))
	}
}

// update updates the texts of the retired bullets to the state p.
func (m *RejectionLog) update(p *playbook.Playbook) {
	for id, l := range m.retired.byKey {
		b := p.Bullet(id)
		if b != nil && b.Status == playbook.Retired && retiredForText(l.code) {
			l.text = b.Content
			m.texts.Put(retiredPrefix+string(id), l.text)
		} else {
			m.texts.Drop(retiredPrefix + string(id))
		}
	}
}

// retiredReason returns the recorded reason why a bullet retired.
func (m *RejectionLog) retiredReason(id playbook.BulletID) string {
	if l := m.retired.byKey[id]; l != nil && l.reason != "" {
		return l.reason
	}
	return "the bullet is retired"
}

// refuse returns a refusal if the text is the same or nearly the same as one that was rejected for good or retired
// because of its text. Otherwise it returns nil.
func (m *RejectionLog) refuse(content string) *screen.Refusal {
	near, ok := m.texts.Duplicate(content, func(id string) string {
		if l := m.entry(id); l != nil {
			return l.text
		}
		return ""
	})
	if !ok {
		return nil
	}
	l := m.entry(near.ID)
	reason := l.reason
	if l.code != playbook.ReasonRejectedText { // its reason has the prefix already
		reason = rejectedBefore + reason
	}
	return screen.Refusef(playbook.ReasonRejectedText, "%s", text.Excerpt(reason, screen.MaxReason))
}

// entry returns the text for an id of m.texts, or nil if the id is unknown.
func (m *RejectionLog) entry(id string) *refusedText {
	if key, ok := strings.CutPrefix(id, rejectedPrefix); ok {
		return m.rejectedTexts.byKey[key]
	}
	return m.retired.byKey[playbook.BulletID(strings.TrimPrefix(id, retiredPrefix))]
}

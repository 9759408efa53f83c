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
	loaded   bool                   // Load has read the log
	texts    map[string]*loggedText // by rejectedID or retiredID
	rejected []string               // the ids of the rejected texts, oldest first
	retired  []string               // the ids of the retired bullets, oldest first
	words    recall.WordIndex       // full-text index of the rejected texts, by id
	barred   similar.Index          // the texts that must not come back, by id; see isPermanent and retiredForText
	merges   []refusedMerge         // oldest first
	tasks    taskLog
}

// refusedMerge is a merge that was refused because of its bullets.
type refusedMerge struct {
	bullets []playbook.BulletID // sorted
	reason  string              // a sentence
}

// loggedText is a rejected text or a retired bullet, with the reason. The deltas do not contain the text of a retired bullet, so update reads
// it from the playbook.
type loggedText struct {
	text   string
	reason string // a sentence
	code   playbook.Reason
}

// Limits of a RejectionLog.
const (
	maxRejectedTexts = 256
	maxRetired       = 512
	maxRefusedMerges = 64
	// maxRecentDeltas is the number of messages at the end of the delta stream that Load reads. The stream is shared, so
	// some of them belong to other books.
	maxRecentDeltas = 300
)

const retiredPrefix = "bullet "

func retiredID(id playbook.BulletID) string { return retiredPrefix + string(id) }

func rejectedID(text string) string {
	key := playbook.ContentKeyOf(text)
	return "rejected " + string(key[:])
}

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
		playbook.ReasonDuplicate, playbook.ReasonSimilar, playbook.ReasonCondition,
		playbook.ReasonNoIDs, playbook.ReasonSourceShare, playbook.ReasonUntrusted, playbook.ReasonCorrected:
		return false
	}
	return true
}

// concernsBullets reports whether a merge that was refused with this reason is refused again while its bullets stay as they are.
func concernsBullets(code playbook.Reason) bool {
	switch code {
	case playbook.ReasonStatus, playbook.ReasonCondition, playbook.ReasonPinned:
		return true
	}
	return false
}

// retiredForText reports whether a bullet with this reason retired because of its text. If not, the same text may be
// added again.
func retiredForText(code playbook.Reason) bool {
	switch code {
	case "", playbook.ReasonTokenBudget, playbook.ReasonTooMany, playbook.ReasonRemoval, playbook.ReasonReplaced,
		playbook.ReasonFails, playbook.ReasonNoBenefit: // with these two reasons, a bullet may return after enough requests
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
	byPerson := d.Author != history.Curator
	for i := range d.Rejected {
		r := &d.Rejected[i]
		hasText := r.Op.Content != "" && !redact.Marked(r.Op.Content)
		if !byPerson && hasText && r.DuplicateOf == "" && concernsText(r.Code) {
			m.addRejected(r.Op.Content, r.Code, r.Reason)
		}
		if !byPerson && r.Op.Kind == playbook.Merge && concernsBullets(r.Code) {
			m.addMerge(&r.Op, r.Reason)
		}
	}
	for i := range d.Ops {
		op := &d.Ops[i]
		if !op.Kind.Counts() {
			m.dropMerges(op.Bullet)
		}
		switch op.Kind {
		case playbook.SetStatus:
			if op.Status != playbook.Retired {
				m.remove(retiredID(op.Bullet))
				continue
			}
			code, reason := op.Code, op.Reason
			if byPerson {
				code, reason = playbook.ReasonPerson, cmp.Or(reason, "retired by a person")
			}
			m.add(&m.retired, maxRetired, retiredID(op.Bullet), &loggedText{reason: reason, code: code})
		case playbook.Remove:
			m.remove(retiredID(op.Bullet))
		case playbook.Add, playbook.Update, playbook.Merge, playbook.Put:
			if byPerson { // a person accepts the text
				content := op.Content
				if op.PutBullet != nil {
					content = op.PutBullet.Content
				}
				m.remove(rejectedID(content))
			}
		}
	}
}

// addRejected adds a text. It keeps an earlier permanent reason, unless the new reason is permanent too and is not ReasonRejectedText, which
// only refers to the first rejection.
func (m *RejectionLog) addRejected(text string, code playbook.Reason, reason string) {
	id := rejectedID(text)
	if old := m.texts[id]; old != nil && isPermanent(old.code) && (!isPermanent(code) || code == playbook.ReasonRejectedText) {
		return
	}
	m.add(&m.rejected, maxRejectedTexts, id, &loggedText{text, reason, code})
	m.words.Put(id, text)
	if isPermanent(code) {
		m.barred.Put(id, text)
	}
}

// addMerge adds a refused merge, in place of an earlier one of the same bullets, and removes the oldest from a full list.
func (m *RejectionLog) addMerge(op *playbook.Op, reason string) {
	bullets := append([]playbook.BulletID{op.Bullet}, op.Sources...)
	slices.Sort(bullets)
	m.merges = slices.DeleteFunc(m.merges, func(other refusedMerge) bool { return slices.Equal(other.bullets, bullets) })
	m.merges = append(m.merges, refusedMerge{bullets, reason})
	m.merges = m.merges[max(0, len(m.merges)-maxRefusedMerges):]
}

// dropMerges removes the refused merges of a bullet that has changed.
func (m *RejectionLog) dropMerges(id playbook.BulletID) {
	m.merges = slices.DeleteFunc(m.merges, func(r refusedMerge) bool { return slices.Contains(r.bullets, id) })
}

// add adds a text at the end of a list, in place of an earlier one with the id, and removes the oldest from a full list.
func (m *RejectionLog) add(list *[]string, limit int, id string, l *loggedText) {
	m.remove(id)
	if m.texts == nil {
		m.texts = make(map[string]*loggedText)
	}
	m.texts[id] = l
	*list = append(*list, id)
	if len(*list) > limit {
		m.remove((*list)[0])
	}
}

// remove removes a text, if it is in the log.
func (m *RejectionLog) remove(id string) {
	if m.texts[id] == nil {
		return
	}
	delete(m.texts, id)
	m.words.Drop(id)
	m.barred.Drop(id)
	isRemoved := func(other string) bool { return other == id }
	m.rejected, m.retired = slices.DeleteFunc(m.rejected, isRemoved), slices.DeleteFunc(m.retired, isRemoved)
}

// update reads the texts of the retired bullets from the state p. A bullet that is no longer retired, or that may return, is not barred.
func (m *RejectionLog) update(p *playbook.Playbook) {
	for _, id := range m.retired {
		l, b := m.texts[id], p.Bullet(playbook.BulletID(strings.TrimPrefix(id, retiredPrefix)))
		if b != nil && b.Status == playbook.Retired && retiredForText(l.code) {
			l.text = b.Content
			m.barred.Put(id, l.text)
		} else {
			m.barred.Drop(id)
		}
	}
}

// retiredReason returns the recorded reason why a bullet retired. It returns false if another bullet replaced it, or if the playbook was full:
// such advice is right again if a new insight asks for it.
func (m *RejectionLog) retiredReason(id playbook.BulletID) (reason string, ok bool) {
	l := m.texts[retiredID(id)]
	if l == nil { // retired before the newest messages, from which the log was read
		return "", false
	}
	switch l.code {
	case playbook.ReasonReplaced, playbook.ReasonTokenBudget, playbook.ReasonTooMany:
		return "", false
	}
	return cmp.Or(l.reason, "the bullet is retired"), true
}

// refuse returns a refusal if the text is the same or nearly the same as one that was rejected for good or retired
// because of its text. Otherwise it returns nil.
func (m *RejectionLog) refuse(content string) *screen.Refusal {
	near, ok := m.barred.Duplicate(content, func(id string) string { return m.texts[id].text })
	if !ok {
		return nil
	}
	l := m.texts[near.ID]
	reason := l.reason
	if l.code != playbook.ReasonRejectedText { // the reason of such a rejection has the prefix already
		reason = rejectedBefore + reason
	}
	return screen.Refusef(playbook.ReasonRejectedText, "%s", text.Excerpt(reason, screen.MaxReason))
}

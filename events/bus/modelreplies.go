package bus

import "time"

const (
	// RepliesKept is the number of replies of a model in the window of a role, and ReplyAge is their maximum age. With 200
	// replies a share of 10 % malformed ones can be told from 1 %. The age lets a quiet role forget a fault that is over.
	RepliesKept = 200
	ReplyAge    = time.Hour
)

// ReplyStats counts the replies of a role's model in the window of RepliesKept and ReplyAge. Only the first reply to each
// request counts.
type ReplyStats struct {
	Total         int       `json:"total"`
	Repaired      int       `json:"repaired"`          // invalid JSON that was repaired
	Invalid       int       `json:"invalid"`           // not usable
	First         time.Time `json:"first_at"`          // first reply in the window; zero without one
	LastMalformed time.Time `json:"last_malformed_at"` // last malformed reply in the window; zero without one
	// Rated counts the replies about runs with an outcome, in a window of their own.
	Rated int `json:"rated"`
	// Doubted counts the replies of Rated that doubt the outcome.
	Doubted int `json:"doubted"`
}

// Add returns the counts of two windows together.
func (s ReplyStats) Add(t ReplyStats) ReplyStats {
	s.Total, s.Repaired, s.Invalid = s.Total+t.Total, s.Repaired+t.Repaired, s.Invalid+t.Invalid
	s.Rated, s.Doubted = s.Rated+t.Rated, s.Doubted+t.Doubted
	if s.First.IsZero() || !t.First.IsZero() && t.First.Before(s.First) {
		s.First = t.First
	}
	if t.LastMalformed.After(s.LastMalformed) {
		s.LastMalformed = t.LastMalformed
	}
	return s
}

// Malformed returns the number of replies that were not valid as written.
func (s ReplyStats) Malformed() int { return s.Repaired + s.Invalid }

// modelReply is one reply of a model in the window.
type modelReply struct {
	at     time.Time
	counts ReplyStats // of this reply alone
}

// replyWindow contains the last replies.
type replyWindow struct {
	last [RepliesKept]modelReply // a ring buffer
	n    int                     // replies so far
}

func (w *replyWindow) add(r modelReply) {
	w.last[w.n%RepliesKept] = r
	w.n++
}

// stats returns the sum of the replies that are not older than ReplyAge.
func (w *replyWindow) stats(now time.Time) (s ReplyStats) {
	for _, r := range w.last[:min(w.n, RepliesKept)] {
		if now.Sub(r.at) <= ReplyAge {
			s = s.Add(r.counts)
		}
	}
	return s
}

// newReply returns a reply for the window of replies. See CountReply.
func newReply(at time.Time, repaired, invalid bool) modelReply {
	counts := ReplyStats{Total: 1, First: at}
	switch {
	case invalid:
		counts.Invalid, counts.LastMalformed = 1, at
	case repaired:
		counts.Repaired, counts.LastMalformed = 1, at
	}
	return modelReply{at, counts}
}

// CountReply counts the first reply of a role's model to a request. repaired means that its JSON was invalid and was
// repaired. invalid means that the reply was not usable.
func (s *Stats) CountReply(role string, repaired, invalid bool) {
	s.update(role, func(r *roleCounters) { r.replies.add(newReply(time.Now(), repaired, invalid)) })
}

// CountLabel counts a reflection of a role's model on a run with an outcome, and whether the model doubts that outcome.
func (s *Stats) CountLabel(role string, doubted bool) {
	counts := ReplyStats{Rated: 1}
	if doubted {
		counts.Doubted = 1
	}
	s.update(role, func(r *roleCounters) { r.labels.add(modelReply{time.Now(), counts}) })
}

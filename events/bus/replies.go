package bus

import "time"

const (
	// RepliesKept is the number of replies of a model in the window of a role, and ReplyAge is their maximum age. 200 replies
	// distinguish 10 % of malformed ones from 1 %. The age lets a quiet role forget a fault that is over.
	RepliesKept = 200
	ReplyAge    = time.Hour
)

// ReplyStats counts the replies of a role's model in the window of RepliesKept and ReplyAge.
type ReplyStats struct {
	Total    int `json:"total"`
	Repaired int `json:"repaired"` // invalid JSON that was repaired
	Invalid  int `json:"invalid"`  // not usable
}

// Add returns the sums of two counts.
func (s ReplyStats) Add(t ReplyStats) ReplyStats {
	return ReplyStats{s.Total + t.Total, s.Repaired + t.Repaired, s.Invalid + t.Invalid}
}

// Malformed returns the number of replies that were not valid as written.
func (s ReplyStats) Malformed() int { return s.Repaired + s.Invalid }

// reply is one reply in the window.
type reply struct {
	at                time.Time
	repaired, invalid bool
}

// replyWindow holds the last replies.
type replyWindow struct {
	last [RepliesKept]reply // a ring buffer
	n    int                // replies so far
}

func (w *replyWindow) add(r reply) {
	w.last[w.n%RepliesKept] = r
	w.n++
}

func (w *replyWindow) stats(now time.Time) (s ReplyStats) {
	for _, r := range w.last[:min(w.n, RepliesKept)] {
		if now.Sub(r.at) > ReplyAge {
			continue
		}
		s.Total++
		if r.repaired {
			s.Repaired++
		}
		if r.invalid {
			s.Invalid++
		}
	}
	return s
}

// CountReply counts a reply of a role's model. Repaired means that its JSON was invalid and was repaired, and invalid that
// the reply was not usable.
func (v *stats) CountReply(role string, repaired, invalid bool) {
	v.update(role, func(r *roleCounters) { r.replies.add(reply{time.Now(), repaired, invalid}) })
}

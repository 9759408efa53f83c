package auditor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// The types of this file repeat those parts of an execution that the audit and the pages need.

type outcome struct {
	Score     float64 `msgpack:"score"`
	Label     string  `msgpack:"label"`
	Inferred  bool    `msgpack:"inferred"`
	Violation bool    `msgpack:"violation"`
	Feedback  string  `msgpack:"feedback"`
	Scores    *[]struct {
		Score float64 `msgpack:"s"`
	} `msgpack:"scores"`
}

// isRated reports whether the outcome is known and was reported.
func (o outcome) isRated() bool { return o.label() != "" && !o.Inferred }

// replaces reports whether the outcome of feedback replaces another one. An inferred outcome replaces no reported one.
func (o outcome) replaces(other outcome) bool {
	return o.label() != "" && (!o.Inferred || !other.isRated())
}

// label returns the label of an outcome, "" for an unknown one.
func (o outcome) label() string {
	switch {
	case o.Violation:
		return "failure"
	case o.Label == "unknown":
		return ""
	case o.Label == "" && o.Score >= 1:
		return "success"
	case o.Label == "" && o.Score > 0:
		return "partial"
	}
	return o.Label
}

// score returns the score of an outcome.
func (o outcome) score() float64 {
	switch {
	case o.Violation:
		return 0
	case o.Label == "success" && o.Score == 0:
		return 1
	case o.Label == "partial" && o.Score == 0:
		return 0.5
	}
	return o.Score
}

// run is an execution.
type run struct {
	Book    string  `msgpack:"-"`
	Handle  string  `msgpack:"-"`
	Doubted bool    `msgpack:"-"` // by the Reflector
	stored  outcome // without feedback; Outcome is that after feedback

	ID      string  `msgpack:"id"`
	Run     string  `msgpack:"run_id"`
	Owner   string  `msgpack:"owner"`
	Session string  `msgpack:"session"`
	Purpose string  `msgpack:"purpose"`
	Pinned  bool    `msgpack:"pinned"`
	Outcome outcome `msgpack:"outcome"`
	Control *struct {
		Held  bool `msgpack:"h"`
		Share int  `msgpack:"s"` // of 1000
	} `msgpack:"control"`
	Usage struct {
		Input   int     `msgpack:"i"`
		Output  int     `msgpack:"o"`
		Dollars float64 `msgpack:"d"`
		Cached  int     `msgpack:"ct"`
	} `msgpack:"usage"`
	Took int64 `msgpack:"took"` // nanoseconds

	Question string `msgpack:"question"`
	Answer   string `msgpack:"answer"`
	Origin   struct {
		Agent string `msgpack:"source"`
		Task  string `msgpack:"task"`
	} `msgpack:"origin"`
	Turn    int       `msgpack:"turn"`
	Version uint64    `msgpack:"version"`
	Shown   []any     `msgpack:"shown"`
	Cited   []string  `msgpack:"cited"`
	Context string    `msgpack:"ctx"`
	Built   *manifest `msgpack:"manifest"`
	Started time.Time `msgpack:"started"`
	Steps   []struct {
		Calls []struct {
			Took time.Duration `msgpack:"took"`
		} `msgpack:"calls"`
	} `msgpack:"steps"`
}

type manifest struct {
	Limit  int `msgpack:"limit"`
	Tokens int `msgpack:"tokens"`
	Parts  []struct {
		Kind   string `msgpack:"k"`
		Tokens int    `msgpack:"t"`
		Count  int    `msgpack:"n"`
	} `msgpack:"parts"`
	Omitted []struct {
		Kind   string `msgpack:"k"`
		Count  int    `msgpack:"n"`
		Tokens int    `msgpack:"t"`
	} `msgpack:"omitted"`
	Warnings []string `msgpack:"warnings"`
}

// shows reports whether the prompt had a bullet.
func (r *run) shows(bullet string) bool {
	return slices.ContainsFunc(r.Shown, func(b any) bool {
		fields, ok := b.([]any)
		return ok && fields[0] == bullet
	})
}

// score returns the stored score: of the feedback if there is any, else of the execution.
func (r *run) score() float64 {
	if r.Outcome == r.stored {
		return r.stored.Score
	}
	return r.Outcome.score()
}

func (r *run) fromAgent() bool {
	return r.Origin.Agent == "agent" || strings.HasPrefix(r.Origin.Agent, "agent/")
}

// runs returns the executions with the outcomes after feedback, oldest first, and by their sequence.
func (s *Streams) runs() (all []*run, bySeq map[uint64]*run, err error) {
	bySeq = map[uint64]*run{}
	for _, m := range s.Executions {
		kind, book := kindAndBook(m.Subject)
		if kind == "feedback" {
			f, err := decode[feedback](m.Data)
			if err != nil {
				return nil, nil, fmt.Errorf("feedback at %d: %w", m.Seq, err)
			}
			if r := bySeq[seqOf(f.Execution)]; r != nil && r.Book == book && f.Outcome.replaces(r.Outcome) {
				r.Outcome = f.Outcome
			}
			continue
		}
		r, err := decode[run](m.Data)
		if err != nil {
			return nil, nil, fmt.Errorf("execution at %d: %w", m.Seq, err)
		}
		r.Book, r.stored = book, r.Outcome
		r.Handle = fmt.Sprintf("%d-%s", m.Seq, handleOf(r.ID))
		all, bySeq[m.Seq] = append(all, r), r
	}
	return all, bySeq, nil
}

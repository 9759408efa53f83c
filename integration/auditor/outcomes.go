package auditor

import "fmt"

// Outcomes has the sums of the executions of a playbook or of one of its versions.
type Outcomes struct {
	Executions, Known, Right int
	Input                    int // tokens
}

// CheckOutcomes recomputes the sums of the executions of a playbook by its version, with the outcomes after feedback.
func CheckOutcomes(s *Streams, book string) (map[uint64]Outcomes, error) {
	all, err := s.runs()
	if err != nil {
		return nil, err
	}
	sums := map[uint64]Outcomes{}
	for _, r := range all {
		if r.Book != book {
			continue
		}
		x := sums[r.Version]
		x.Executions++
		x.Input += r.Usage.Input
		if r.Outcome.label() != "" {
			x.Known++
		}
		if r.Outcome.label() == "success" {
			x.Right++
		}
		sums[r.Version] = x
	}
	return sums, nil
}

// runs returns the executions with the outcomes after feedback, oldest first.
func (s *Streams) runs() (all []*run, err error) {
	bySeq := map[uint64]*run{}
	for _, m := range s.Executions {
		kind, book := kindAndBook(m.Subject)
		if kind == "feedback" {
			f, err := decode[feedback](m.Data)
			if err != nil {
				return nil, fmt.Errorf("feedback at %d: %w", m.Seq, err)
			}
			if r := bySeq[seqOf(f.Execution)]; r != nil && r.Book == book && f.Outcome.replaces(r.Outcome) {
				r.Outcome = f.Outcome
			}
			continue
		}
		r, err := decode[run](m.Data)
		if err != nil {
			return nil, fmt.Errorf("execution at %d: %w", m.Seq, err)
		}
		r.Book = book
		all, bySeq[m.Seq] = append(all, r), r
	}
	return all, nil
}

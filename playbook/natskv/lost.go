package natskv

import (
	"context"
	"fmt"

	"debrief/playbook"
)

// lostEnd names a version that the view was at and the log does not hold any more. A view is written from the log alone,
// so the log lost its end, or the stream was replaced. The writer that finds it continues from the rest of the log, and
// keeps this in the head so that the loss is not silent.
type lostEnd struct {
	Version uint64 `msgpack:"v"`
	Seq     uint64 `msgpack:"q"`
	Chain   []byte `msgpack:"x"`
}

func (l *lostEnd) String() string {
	return fmt.Sprintf("version %s (sequence %d)", playbook.Label(l.Version, l.Chain), l.Seq)
}

// lostBy returns the version that the log lost according to a head: a recorded one, or the version of the head itself.
// It returns nil if the log lost none.
func (s *Store) lostBy(ctx context.Context, b playbook.Book, h *head) (*lostEnd, error) {
	if h.Version == 0 || h.Partial {
		return h.Lost, nil
	}
	m, err := s.deltaOfLeader(ctx, map[string]any{"seq": h.Seq})
	if err != nil || m.is(b, h.Chain) {
		return h.Lost, err
	}
	if h.Lost != nil && h.Lost.Version >= h.Version {
		return h.Lost, nil
	}
	return &lostEnd{h.Version, h.Seq, h.Chain}, nil
}

// newHead is the head of the version that the writer is at.
func (w *Writer) newHead() head {
	h := w.head()
	h.Lost = w.lost
	return h
}

// Lost returns the newest version that the view had and the log lost. It is empty if the log lost none.
func (w *Writer) Lost() string {
	if w.lost == nil {
		return ""
	}
	return w.lost.String()
}

package deltalog

import (
	"context"
	"fmt"

	"debrief/playbook"
)

// lostVersion identifies a version that the view contains and the log does not. The view is written only from the log, so the
// log has lost its end, or the stream was replaced. The writer that detects this continues from the rest of the log and
// records the loss in the head, so that operators see it.
type lostVersion struct {
	Version uint64 `msgpack:"v"`
	Seq     uint64 `msgpack:"q"`
	Chain   []byte `msgpack:"x"`
}

func (l *lostVersion) String() string {
	return fmt.Sprintf("version %s (sequence %d)", playbook.VersionLabel(l.Version, l.Chain), l.Seq)
}

// findLost returns the newest version that the log lost: the one recorded in the head, or the version of the head
// itself. It returns nil if nothing is lost.
func (s *Store) findLost(ctx context.Context, b playbook.Book, h *head) (*lostVersion, error) {
	if h.Version == 0 || h.Partial { // it names no delta
		return h.Lost, nil
	}
	ok, err := s.hasDelta(ctx, b, h.Seq, h.Chain)
	if err != nil || ok {
		return h.Lost, err
	}
	if h.Lost != nil && h.Lost.Version >= h.Version {
		return h.Lost, nil
	}
	return &lostVersion{h.Version, h.Seq, h.Chain}, nil
}

// newHead returns the head for the writer's version, with a recorded loss.
func (w *Writer) newHead() head {
	h := w.head()
	h.Lost = w.lost
	return h
}

// LostVersion describes the newest version that the view had and the log lost. It is empty if nothing is lost.
func (w *Writer) LostVersion() string {
	if w.lost == nil {
		return ""
	}
	return w.lost.String()
}

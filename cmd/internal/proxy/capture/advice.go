package capture

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/direct"
	"debrief/events/natserr"
)

// Keep returns a block with the lines for which keep returns true. The other lines keep their bytes. Without a line the text is empty.
func (b Block) Keep(keep func(l *events.AdviceLine, text string) bool) Block {
	b.Text, b.Lines = events.KeepAdvice(b.Text, b.Lines, keep)
	b.Bullets = nil
	for _, l := range b.Lines {
		if l.Bullet != "" {
			b.Bullets = append(b.Bullets, l.Bullet)
		}
	}
	return b
}

// Advice is the advice in all stored runs, for an erasure of its texts.
type Advice struct{ open, closed bucket }

// NewAdvice returns the advice in the runs of a server. It needs the rights of an operator.
func NewAdvice(conn *bus.Conn) *Advice {
	js := conn.JetStream()
	server := &server{nc: conn.NATS(), js: js, watch: natserr.WatchOf(js)}
	return &Advice{bucket{server, events.BucketOpen}, bucket{server, events.BucketCaptures}}
}

// Remove removes the lines of open and closed runs for which mustGo returns true. The server still has the bytes of the replaced values.
func (a *Advice) Remove(ctx context.Context, mustGo func(*events.AdviceLine) bool) error {
	keep := func(l *events.AdviceLine, _ string) bool { return !mustGo(l) }
	rewrite := func(b *bucket, m *direct.Message, block *Block, value any) error {
		kept := block.Keep(keep)
		if len(kept.Lines) == len(block.Lines) {
			return nil
		}
		*block = kept
		_, err := b.put(ctx, strings.TrimPrefix(m.Subject, b.prefix()), value, 0, jetstream.WithExpectLastSequencePerSubject(m.Seq))
		if natserr.IsConflict(err) { // the run was closed meanwhile, and its next state is read later
			return nil
		}
		return err
	}
	err := a.open.read(ctx, blockKey("*"), func(m *direct.Message) error {
		block, err := decode[Block](m)
		if err != nil || block == nil {
			return nil //nolint:nilerr // an unreadable block is not repeated
		}
		return rewrite(&a.open, m, block, block)
	})
	if err != nil {
		return fmt.Errorf("remove advice from open runs: %w", err)
	}
	err = a.closed.read(ctx, closedKey("*"), func(m *direct.Message) error {
		r, err := decode[run](m)
		if err != nil || r == nil || r.Block == nil {
			return nil //nolint:nilerr // an unreadable run is lost
		}
		return rewrite(&a.closed, m, r.Block, r)
	})
	if err != nil {
		return fmt.Errorf("remove advice from closed runs: %w", err)
	}
	return nil
}

// storedBlock reads the block of an open run again: an erasure may have removed lines of it. It returns the known block if the server does not
// answer or does not have it yet.
func (s *Store) storedBlock(ctx context.Context, r *run) *Block {
	block := r.Block
	_ = s.open.last(ctx, []string{blockKey(r.ID)}, func(m *direct.Message) error { // without an answer the known block stays
		if b, err := decode[Block](m); err == nil && b != nil {
			block = b
		}
		return nil
	})
	return block
}

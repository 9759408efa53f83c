package integration

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// naiveEnv makes the test binary a small curator on the real transport and the real store, with a rule of its own for
// what is settled; natsEnv is its server.
const naiveEnv, natsEnv = "DEBRIEF_TEST_NAIVE", "DEBRIEF_TEST_NATS"

// Rules of naive curators. The last is the right one: with it they must pass what they fail with the others.
const (
	watermark    = "watermark"   // everything up to the highest sequence that is covered
	floorAlone   = "floor alone" // everything up to the floor of the acks
	byID         = "covered ids"
	naiveAtATime = 16
)

// naive is such a curator.
type naive struct {
	rule  string
	conn  *bus.Conn
	store *natskv.Store
}

// startNaive starts a naive curator with a rule and returns when it works.
func startNaive(rule string) func(t testing.TB, name, url string) *process {
	return func(t testing.TB, name, url string) *process {
		t.Helper()
		p := start(t, name, func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), naiveEnv+"="+rule, natsEnv+"="+url)
			return cmd
		})
		p.line()
		return p
	}
}

func curateNaively(rule, url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	defer nc.Close()
	n := naive{rule: rule}
	if n.conn, err = bus.Open(ctx, nc, bus.Options{Policy: bus.Policy{AckWait: ackWait}}); err == nil {
		n.store = natskv.New(n.conn.JetStream())
		fmt.Println("curates")
		err = n.conn.Run(ctx, bus.Worker{Role: events.RoleCurator, Batch: naiveAtATime, Handle: n.handle})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (n *naive) handle(ctx context.Context, batch []*bus.Delivery) []bus.Result {
	results := make([]bus.Result, len(batch))
	err := n.settle(ctx, batch)
	for i := range results {
		results[i] = bus.Result{Err: err, Reply: []byte{}}
	}
	return results
}

func (n *naive) settle(ctx context.Context, batch []*bus.Delivery) error {
	w, err := n.store.Writer(ctx, batch[0].Event.InBook())
	if err != nil {
		return err
	}
	if err := w.OpenIndex(ctx); err != nil {
		return err
	}
	lag, err := n.conn.Lag(ctx, events.RoleCurator)
	if err != nil {
		return err
	}
	_, err = w.Commit(ctx, func(s natskv.State) ([]*playbook.Delta, error) {
		d := &playbook.Delta{Floor: lag.Floor, Author: "naive", Time: time.Now().UTC()}
		for _, del := range batch {
			cover := coverOf(del)
			if settled, err := n.settled(s, &cover); err != nil {
				return nil, err
			} else if settled {
				continue
			}
			if n.rule == watermark {
				d.Floor = max(d.Floor, del.Seq)
			}
			d.Covers = append(d.Covers, cover)
			d.Ops = append(d.Ops, naiveOps(s.Playbook(), del.Event, len(d.Covers)-1)...)
		}
		if len(d.Covers) == 0 {
			return nil, nil
		}
		return []*playbook.Delta{d}, nil
	})
	if err != nil {
		return err
	}
	return w.Flush(ctx)
}

// coverOf is what a delta records of a delivery.
func coverOf(d *bus.Delivery) playbook.Cover {
	if r, ok := d.Event.(*events.Reflection); ok {
		return r.Cover(d.Seq)
	}
	return playbook.Cover{ID: string(d.Event.EventID()), Seq: d.Seq}
}

// settled is the rule.
func (n *naive) settled(s natskv.State, c *playbook.Cover) (bool, error) {
	if n.rule == byID {
		return s.Covers(c.Key())
	}
	return c.Seq <= s.Floor(), nil
}

// naiveOps takes votes and people's new bullets for what they say, and leaves the rest.
func naiveOps(p *playbook.Playbook, e events.Event, cover int) (ops []playbook.Op) {
	switch e := e.(type) {
	case *events.Edit:
		for i, op := range e.Ops {
			op.Bullet = playbook.MintID(op.Section, p.LastMinted()+uint64(i)+1)
			op.Support = []int{cover}
			ops = append(ops, op)
		}
	case *events.Reflection:
		for _, t := range e.Tags {
			op := playbook.Op{Kind: playbook.Tag, Bullet: t.ID, Support: []int{cover}}
			switch t.Tag {
			case events.Helpful:
				op.Helpful = 1
			case events.Harmful:
				op.Harmful = 1
			default:
				op.Neutral = 1
			}
			ops = append(ops, op)
		}
	}
	return ops
}

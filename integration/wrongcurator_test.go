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
	"debrief/events/deltalog"
	"debrief/playbook"
)

// wrongCuratorEnv makes the test binary a small curator with the real transport and store, and the given rule for covered events.
// natsEnv is its server.
const wrongCuratorEnv, natsEnv = "DEBRIEF_TEST_NAIVE", "DEBRIEF_TEST_NATS"

// Rules of wrong curators. The last rule is correct: with it they must pass the checks.
const (
	watermark    = "watermark"   // everything up to the highest sequence that is covered
	floorAlone   = "floor alone" // everything up to the floor of the acks
	byID         = "covered ids"
	naiveAtATime = 16
)

// wrongCurator is a curator with one of the rules.
type wrongCurator struct {
	rule  string
	conn  *bus.Conn
	store *deltalog.Store
}

// startWrongCurator returns a function that starts a curator with the rule and waits until it is ready.
func startWrongCurator(rule string) func(t testing.TB, name, url string) *process {
	return func(t testing.TB, name, url string) *process {
		t.Helper()
		p := start(t, name, func() *exec.Cmd {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), wrongCuratorEnv+"="+rule, natsEnv+"="+url)
			return cmd
		})
		p.line()
		return p
	}
}

func runWrongCurator(rule, url string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 4
	}
	defer nc.Close()
	n := wrongCurator{rule: rule}
	if n.conn, err = bus.Open(ctx, nc, bus.Options{Policy: bus.Policy{AckWait: ackWait}}); err == nil {
		n.store = deltalog.New(n.conn.JetStream())
		fmt.Println("curates")
		err = n.conn.Run(ctx, bus.Worker{Role: events.RoleCurator, Batch: naiveAtATime, Handle: n.handle})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (n *wrongCurator) handle(ctx context.Context, batch []*bus.Delivery) []bus.Result {
	results := make([]bus.Result, len(batch))
	err := n.settle(ctx, batch)
	for i := range results {
		results[i] = bus.Result{Err: err, Reply: []byte{}}
	}
	return results
}

func (n *wrongCurator) settle(ctx context.Context, batch []*bus.Delivery) error {
	w, err := n.store.Writer(ctx, batch[0].Event.InBook())
	if err != nil {
		return err
	}
	if err := w.OpenIndex(ctx); err != nil {
		return err
	}
	lag, err := n.conn.Consumers.Lag(ctx, events.RoleCurator)
	if err != nil {
		return err
	}
	_, err = w.Commit(ctx, func(s deltalog.State) ([]*playbook.Delta, error) {
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
			d.Ops = append(d.Ops, wrongCuratorOps(s.Playbook(), del.Event, len(d.Covers)-1)...)
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

// coverOf returns the cover of a delivery.
func coverOf(d *bus.Delivery) playbook.Cover {
	if r, ok := d.Event.(*events.Reflection); ok {
		return r.Cover(d.Seq)
	}
	return playbook.Cover{ID: string(d.Event.EventID()), Seq: d.Seq}
}

// settled reports whether an event is covered, by the curator's rule.
func (n *wrongCurator) settled(s deltalog.State, c *playbook.Cover) (bool, error) {
	if n.rule == byID {
		return s.Covers(c.Key())
	}
	return c.Seq <= s.Floor(), nil
}

// wrongCuratorOps returns the operations for votes and added bullets, and ignores other content.
func wrongCuratorOps(p *playbook.Playbook, e events.Event, cover int) (ops []playbook.Op) {
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

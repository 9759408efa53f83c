package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"debrief/events/deltalog"

	book "debrief/playbook"
)

// texts writes bullets and questions of people who work on invoices. The same seed gives the same texts. It must not be used
// concurrently.
type texts struct{ *rand.Rand }

func newTexts(seed uint64) texts { return texts{rand.New(rand.NewPCG(seed, 1))} }

var (
	things = strings.Fields(`invoices shelves couriers currencies rounding discounts refunds deadlines passwords backups orders
		taxes parsers imports servers tables columns exports customers returns contracts ledgers balances stamps parcels warehouses
		tests branches releases tokens pages replies accounts limits queues dates totals sheets prices weights`)
	doings = strings.Fields("compare collect sort recount reject split rename round merge repeat archive translate")
)

func (t texts) thing() string { return things[t.IntN(len(things))] }
func (t texts) doing() string { return doings[t.IntN(len(doings))] }

// advice returns the text of a bullet.
func (t texts) advice() string {
	return fmt.Sprintf("Before you %s %s with %d %s, %s all %s and write down the %s.",
		t.doing(), t.thing(), 2+t.IntN(90), t.thing(), t.doing(), t.thing(), t.thing())
}

// question returns a question.
func (t texts) question() string {
	return fmt.Sprintf("Which %s failed in run %d, and what shall I %s first?", t.thing(), t.IntN(1000), t.doing())
}

// The playbook of a bench with one, and the section of its bullets.
const (
	benchBook    = book.Book("default")
	benchSection = "strategies_and_hard_rules"
)

// nthBook is the name of a playbook of a bench with several.
func nthBook(i int) book.Book { return book.Book(fmt.Sprint("bench-", i)) }

func nthBullet(i int) book.BulletID { return book.MintID(benchSection, uint64(i+1)) }

// fillBook creates a playbook with size bullets, in deltas of 500.
func fillBook(ctx context.Context, store *deltalog.Store, name book.Book, size int, t texts) error {
	w, err := store.Writer(ctx, name)
	if err != nil {
		return err
	}
	for from := 0; from < size; from += 500 {
		_, err := w.Commit(ctx, func(s deltalog.State) ([]*book.Delta, error) {
			d := &book.Delta{Author: "bench", Time: time.Now().UTC()}
			for i := from; i < min(from+500, size); i++ {
				d.Ops = append(d.Ops, book.Op{Kind: book.Add, Bullet: nthBullet(i), Section: benchSection, Content: t.advice()})
			}
			return []*book.Delta{d}, nil
		})
		if err != nil {
			return err
		}
		if err := w.Flush(ctx); err != nil {
			return err
		}
	}
	return nil
}

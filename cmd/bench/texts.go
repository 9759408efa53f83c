package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
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

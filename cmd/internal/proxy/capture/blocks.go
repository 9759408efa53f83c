package capture

import (
	"context"
	"slices"

	"debrief/events"
)

// A block is the advice that the gateway inserts into the user item of a run. The client does not get it, so each later call of the
// conversation inserts the blocks of the earlier turns again.

// placement states at which user item the block of a run is inserted. The block itself is stored with its run.
type placement struct {
	// Item is the index of the user item in the items of a call. In run.Earlier this is the call that stored the placement, in the result of
	// locateBlocks it is this call. The index may differ between calls, because clients insert and remove messages.
	Item     int       `msgpack:"i"`
	Question string    `msgpack:"q,omitempty" redact:"-"` // hash of the text of the item
	Run      events.ID `msgpack:"r" redact:"-"`
}

// placements returns the placements of the block of the run and of those of the turns before it, oldest first. The next turn of the
// conversation stores them.
func (r *run) placements() []placement {
	if r.Block == nil || r.Block.Text == "" {
		return r.Earlier
	}
	return append(slices.Clone(r.Earlier), placement{r.TurnItem, r.Question, r.ID})
}

// earlierPlacements returns the placements of the newest earlier turn of the conversation that has a run. Open runs are preferred.
func (ac *ActiveCall) earlierPlacements(ctx context.Context) ([]placement, error) {
	keys := ac.place.earlier // newest first
	for _, b := range []*bucket{&ac.store.open, &ac.store.closed} {
		found, err := ac.store.lookup(ctx, b, ac.call.owns, keys...)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if list := ac.narrowPrevious(found[key].runs); len(list) > 0 {
				newest := list[len(list)-1] // references are listed oldest first
				return newest.placements(), nil
			}
		}
	}
	return nil, nil
}

// setBlocks sets the blocks to insert: those of the earlier turns that are in the call, and the block of this turn if it has one.
func (ac *ActiveCall) setBlocks(ctx context.Context) error {
	if b := ac.match.run.Block; b != nil {
		ac.Block = *b
	}
	places := ac.locateBlocks()
	runs, err := ac.runsAt(ctx, places)
	if err != nil {
		return err
	}
	ac.Blocks = make(map[int]Block, len(places))
	for _, p := range places {
		if r := runs[p.Run].run; r != nil && r.Block != nil && r.Block.Text != "" {
			ac.Blocks[p.Item] = *r.Block
		}
	}
	return nil
}

// locateBlocks returns the placements in this call, newest first. The block of this run is at the turn, even if the client has changed the
// text of the turn. An older block is before all newer ones, and only at an item with the text of its own turn:
//
//  1. at the item where it was in the earlier call,
//  2. else at the last such item,
//  3. else it is left out.
func (ac *ActiveCall) locateBlocks() (places []placement) {
	items := ac.call.Request.Items
	end := ac.place.turn // the item of the next newer block, at first the turn
	for _, p := range slices.Backward(ac.match.run.placements()) {
		isTurn := func(i int) bool { return items[i].IsTurn() && questionHash(items[i].Text) == p.Question }
		switch {
		case p.Run == ac.Run:
			p.Item = ac.place.turn
		case p.Item >= end || !isTurn(p.Item):
			p.Item = end - 1
			for p.Item >= 0 && !isTurn(p.Item) {
				p.Item--
			}
		}
		if p.Item >= 0 {
			places = append(places, p)
			end = p.Item
		}
	}
	return places
}

// runsAt returns the runs of placements. It reads only those that are not in the cache, because a block never changes. Runs that do not exist
// anymore are left out.
func (ac *ActiveCall) runsAt(ctx context.Context, places []placement) (map[events.ID]revision, error) {
	known := map[events.ID]revision{}
	var missing []events.ID
	for _, p := range places {
		var own revision // the run of this call if the placement is its own, for a cache without it
		if p.Run == ac.Run {
			own.run = ac.match.run
		}
		if r := ac.store.recent.newestRun(p.Run, own); r.run != nil {
			known[p.Run] = r
		} else {
			missing = append(missing, p.Run)
		}
	}
	read, err := ac.store.runs(ctx, missing)
	for id, r := range read {
		known[id] = r
		ac.store.recent.putRun(r)
	}
	return known, err
}

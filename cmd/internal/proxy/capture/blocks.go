package capture

import (
	"context"
	"slices"

	"debrief/events"
)

// placement is the block of a run at a user item. The item may move: clients insert and remove messages.
type placement struct {
	Item     int       `msgpack:"i"`
	Question string    `msgpack:"q,omitempty" redact:"-"` // hash of the text of the item
	Run      events.ID `msgpack:"r" redact:"-"`
}

// placements returns the blocks of the run and of the turns before it, for the next turn of its conversation.
func (r *run) placements() []placement {
	if r.Block == nil || r.Block.Text == "" {
		return r.Earlier
	}
	return append(slices.Clone(r.Earlier), placement{r.Turn, r.Question, r.ID})
}

// earlierBlocks returns the blocks of the newest known turn of a conversation and of the turns before it.
func (o *Open) earlierBlocks(ctx context.Context) ([]placement, error) {
	keys := o.place.earlier
	for _, b := range []*bucket{&o.store.open, &o.store.closed} {
		found, err := o.store.lookup(ctx, b, o.call.owns, keys...)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if list := o.narrowPrevious(found[key].runs); len(list) > 0 {
				return list[len(list)-1].placements(), nil
			}
		}
	}
	return nil, nil
}

// setBlocks sets the blocks to insert: those of the earlier turns that are in the call, and the block of this turn if it has one.
func (o *Open) setBlocks(ctx context.Context) error {
	if b := o.match.run.Block; b != nil {
		o.Block = *b
	}
	places := o.places()
	runs, err := o.runsAt(ctx, places)
	if err != nil {
		return err
	}
	o.Blocks = make(map[int]Block, len(places))
	for _, p := range places {
		if r := runs[p.Run].run; r != nil && r.Block != nil && r.Block.Text != "" {
			o.Blocks[p.Item] = *r.Block
		}
	}
	return nil
}

// places returns the blocks of the run and of the turns before it, newest first, each with the item of the call where it is inserted. The
// block of this run belongs to the turn, even if the client has changed the text of the turn. An older block belongs to an item with the text
// of its own turn, before this turn and before all newer blocks: to the item where it was, else to the last one with that text. If there is
// none, the block is left out.
func (o *Open) places() (places []placement) {
	items := o.call.Request.Items
	end := o.place.turn // the item of the block after this one
	for _, b := range slices.Backward(o.match.run.placements()) {
		isTurn := func(i int) bool { return items[i].IsTurn() && questionHash(items[i].Text) == b.Question }
		at := -1
		if b.Run == o.Run {
			at = o.place.turn
		} else if b.Item < end && isTurn(b.Item) {
			at = b.Item
		}
		for i := end - 1; i >= 0 && at < 0; i-- {
			if isTurn(i) {
				at = i
			}
		}
		if at >= 0 {
			places = append(places, placement{at, b.Question, b.Run})
			end = at
		}
	}
	return places
}

// runsAt returns the runs of blocks. It reads only those that are not in the cache, because a block never changes. Runs that do not exist
// anymore are left out.
func (o *Open) runsAt(ctx context.Context, places []placement) (map[events.ID]revision, error) {
	known := map[events.ID]revision{o.Run: {run: o.match.run}}
	var missing []events.ID
	for _, p := range places {
		r := o.store.recent.run(p.Run, known[p.Run]) // from the cache, or else the run of this call, or none
		if r.run != nil {
			known[p.Run] = r
		} else {
			missing = append(missing, p.Run)
		}
	}
	read, err := o.store.runs(ctx, missing)
	for id, r := range read {
		known[id] = r
		o.store.recent.putRun(r)
	}
	return known, err
}

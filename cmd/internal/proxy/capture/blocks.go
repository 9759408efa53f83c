package capture

import (
	"context"
	"slices"

	"debrief/events"
)

// earlierBlocks returns the blocks of the newest known turn of a conversation and of the turns before it.
func (s *Store) earlierBlocks(ctx context.Context, o *Open) ([]placement, error) {
	keys := make([]string, len(o.place.earlier))
	for i, t := range o.place.earlier {
		keys[i] = t.start
	}
	for _, b := range []*bucket{&s.open, &s.closed} {
		lists, _, err := s.candidates(ctx, b, o.call.Owner, keys...)
		if err != nil {
			return nil, err
		}
		for _, list := range lists {
			if list = narrowPrevious(o, list); len(list) > 0 {
				return list[len(list)-1].placements(), nil
			}
		}
	}
	return nil, nil
}

// setBlocks sets the blocks to insert: those of the earlier turns that are in the call, and the block of this turn if it has one.
func (s *Store) setBlocks(ctx context.Context, o *Open) error {
	places := o.places()
	if b := o.run.Block; b != nil {
		o.Block = Block(*b)
		s.recent.putBlock(o.run.ID, o.Block)
	}
	blocks, err := s.blocks(ctx, places)
	if err != nil {
		return err
	}
	o.Blocks = make(map[int]Block, len(places))
	for _, p := range places {
		if b := blocks[p.Run]; b.Text != "" {
			o.Blocks[p.Item] = b
		}
	}
	return nil
}

// places returns the blocks of the run and of the turns before it, with the item of the call where each one is inserted, newest first.
// The block of this run belongs to the turn, also if the client has changed its text. Another block belongs to an item with the text
// of its turn: the item where it was, or the last such item before the next block. If the client has removed it, the block is left out.
func (o *Open) places() (places []placement) {
	items := o.call.Request.Items
	end := o.place.turn // the item of the block after this one
	for _, b := range slices.Backward(o.run.placements()) {
		isTurn := func(i int) bool { return items[i].IsTurn() && questionHash(items[i].Text) == b.Question }
		at := -1
		if b.Run == o.run.ID {
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

// blocks returns blocks by their runs. Runs that do not exist anymore are left out.
func (s *Store) blocks(ctx context.Context, places []placement) (map[events.ID]Block, error) {
	blocks := make(map[events.ID]Block, len(places))
	var missing []events.ID
	for _, p := range places {
		if b, ok := s.recent.block(p.Run); ok {
			blocks[p.Run] = b
		} else {
			missing = append(missing, p.Run)
		}
	}
	if len(missing) == 0 {
		return blocks, nil
	}
	runs, err := s.runs(ctx, missing)
	for id, r := range runs {
		if r.Block != nil {
			blocks[id] = Block(*r.Block)
			s.recent.putBlock(id, blocks[id])
		}
	}
	return blocks, err
}

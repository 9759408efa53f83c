package capture

import (
	"errors"
	"fmt"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// TestIdsOfOthersHideNothing lets a token make more calls with the same ids than a key has places. Each token still finds its own run by each
// id, continues it by each link of the provider's history, and finds no run of another. A caller who may rate all runs gets several.
func TestIdsOfOthersHideNothing(t *testing.T) {
	t.Parallel()
	d := open(t)
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	speak := func(owner string, n int) *ActiveCall {
		c := d.client(modelapi.Responses)
		c.owner, c.session, c.trace, c.conv = owner, "s", trace, "conv_1"
		c.user(fmt.Sprint("Who is number ", n, "?"))
		reply := says("Ann.")
		reply.ID = "resp_1"
		return c.next(reply)
	}
	for n := range maxReferences + 2 {
		speak("eve", n)
	}
	own := speak("ann", 0)
	d.stores = append(d.stores, d.store()) // without what the others have in memory
	fresh := d.stores[2]
	for _, id := range []string{"resp_1", "s", "s/1", events.TraceID(trace)} {
		r, err := fresh.findRef(t.Context(), Ref{Book: "b", ID: id, Caller: events.Caller{Owner: "ann"}})
		if err != nil || r == nil || r.ID != own.Run {
			t.Errorf("%s: got %+v, %v, want run %s", id, r, err, own.Run)
		}
		if r, err := fresh.findRef(t.Context(), Ref{Book: "b", ID: id, Caller: events.Caller{Owner: "bob"}}); r != nil || err != nil {
			t.Errorf("%s: another token got %+v, %v", id, r, err)
		}
		several := new(AmbiguousError)
		if _, err := fresh.findRef(t.Context(), Ref{Book: "b", ID: id, Caller: events.Caller{Owner: "bob", Reviews: true}}); !errors.As(err, &several) {
			t.Errorf("%s: a token with the scope review got %v", id, err)
		}
	}
	for name, link := range map[string]func(*client){
		"response": func(c *client) { c.previous = "resp_1" }, "conversation": func(c *client) { c.conv = "conv_1" },
	} {
		c := d.client(modelapi.Responses)
		c.store = 2
		link(c)
		c.user("And " + name + "?")
		if o := c.next(says("Bob.")); o.Session != own.Session || o.TurnNumber != 2 && name == "response" {
			t.Errorf("%s: got session %q, turn %d, want that of run %s", name, o.Session, o.TurnNumber, own.Run)
		}
	}
	d.closeAll()
}

package capture

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/cmd/internal/runs/modelapi"
)

// agent is a client with a model of its runs, which knows nothing of the package.
type agent struct {
	*client
	number  int
	calls   int
	turn    *execution // of the open turn; nil before the first one
	turns   []*execution
	waiting []string    // calls without results
	asked   []string    // calls of the last reply
	sent    []int       // indexes of the results that the call in flight contains
	flight  *ActiveCall // a call in flight
	retry   bool        // the last call had no complete reply
	tries   int         // attempts at the last call
}

// TestInterleavedConversations plays random conversations at the same time, over two gateways that may die. Several of them have
// equal questions. The executions must be those of the model.
func TestInterleavedConversations(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	d := open(t)
	trial := 0
	rapid.Check(t, func(rt *rapid.T) {
		trial++
		d.reset(t)
		d.stores = []*Store{d.store(), d.store()}
		agents := make([]*agent, rapid.IntRange(1, 4).Draw(rt, "agents"))
		for i := range agents {
			agents[i] = &agent{client: d.client(rapid.SampledFrom(apis).Draw(rt, "api")), number: i}
			agents[i].owner = fmt.Sprint("trial ", trial)
		}
		for range rapid.IntRange(5, 40).Draw(rt, "steps") {
			a := rapid.SampledFrom(agents).Draw(rt, "agent")
			a.store = rapid.IntRange(0, 1).Draw(rt, "gateway")
			a.step(rt)
			if rapid.IntRange(0, 9).Draw(rt, "settle") == 0 {
				d.settle()
			}
			if i := rapid.IntRange(0, 19).Draw(rt, "restart"); i < 2 && !slices.ContainsFunc(agents, func(a *agent) bool { return a.flight != nil }) {
				d.restart(i)
			}
		}
		var want []execution
		for _, a := range agents {
			if a.flight != nil {
				<-a.flight.done
			}
			for _, e := range a.turns {
				if e.Calls > 0 {
					want = append(want, *e)
				}
			}
		}
		got := executions(d.closeAll())
		for i := range got {
			got[i].Label = ""
		}
		sort := func(list []execution) {
			slices.SortFunc(list, func(a, b execution) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
		sort(want)
		sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Errorf("trial %d: %s", trial, diff)
		}
	})
}

// restart replaces a gateway by a new one. The runs that it was going to report are left to a sweep.
func (d *desk) restart(i int) {
	old := d.stores[i]
	d.stores[i] = d.store()
	for len(old.wake) > 0 {
		d.stores[i].wake <- <-old.wake
	}
}

// step does the next thing that the agent can do.
func (a *agent) step(rt *rapid.T) {
	switch {
	case a.flight != nil:
		a.finish(rt)
	case a.retry:
		a.send(rapid.SampledFrom([]int{0, a.tries}).Draw(rt, "repetition")) // not all clients number repetitions
	case a.turn == nil || len(a.waiting) == 0:
		question := rapid.SampledFrom([]string{"Who?", "Why?"}).Draw(rt, "question")
		a.user(question)
		a.turn = &execution{Question: question}
		a.turns = append(a.turns, a.turn)
		a.send(0)
	default:
		a.answerCalls(rt)
		a.send(0)
	}
}

// send makes an attempt at a call. Repetition is the number that the client states, 0 for none. It is not higher than the number
// of attempts that reached a gateway: with a higher one, equal calls at the same time cannot be distinguished.
func (a *agent) send(repetition int) {
	if !a.retry {
		a.tries = 0
	}
	a.tries++
	a.flight, a.retry = a.beginAgain(repetition), false
}

// answerCalls sends the results of the last reply's calls.
func (a *agent) answerCalls(rt *rapid.T) {
	var pairs []string
	for _, id := range a.waiting {
		a.sent = append(a.sent, len(a.turn.Outputs)-len(a.waiting)+len(a.sent))
		pairs = append(pairs, id, "output of "+id)
	}
	if len(pairs) > 2 && rapid.Bool().Draw(rt, "swap") {
		pairs = append(pairs[2:], pairs[:2]...)
	}
	a.results(pairs...)
	a.waiting = nil
}

// finish ends the call in flight: with a reply, without one, or with the death of its gateway.
func (a *agent) finish(rt *rapid.T) {
	o := a.flight
	a.flight = nil
	end := rapid.SampledFrom([]string{"text", "text", "tools", "tools", "cut", "fail", "die"}).Draw(rt, "end")
	if end == "die" {
		o.die()
		a.retry = true
		return
	}
	for n, i := range a.sent { // the results are stored with the end of the call
		a.turn.Outputs[i] = "output of " + a.asked[n]
	}
	a.sent = nil
	switch end {
	case "cut":
		a.end(o, cut)
		a.retry = true
	case "fail":
		a.end(o, &modelapi.Reply{Finish: modelapi.FinishFailed})
		a.retry = true
	case "text":
		a.calls++
		a.complete(o, says(fmt.Sprintf("answer %d of %d", a.calls, a.number)))
	default:
		a.calls++
		ids := []string{fmt.Sprintf("call_%d_%d", a.number, a.calls)}
		if rapid.Bool().Draw(rt, "parallel") {
			ids = append(ids, ids[0]+"b")
		}
		a.complete(o, calls(ids...))
		a.waiting, a.asked = ids, ids
		a.turn.Outputs = append(a.turn.Outputs, make([]string, len(ids))...)
	}
}

func (a *agent) complete(o *ActiveCall, r *modelapi.Reply) {
	a.end(o, r)
	a.turn.Calls++
	a.turn.Answer = r.Text
}

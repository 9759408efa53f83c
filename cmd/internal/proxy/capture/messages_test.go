package capture

import (
	"strings"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/events"
)

// TestStoredMessages counts the messages that the server stores for each call. On a server that flushes each of them to disk,
// they limit the rate of calls.
func TestStoredMessages(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	stored := func() uint64 {
		var n uint64
		for _, bucket := range []string{events.BucketOpen, events.BucketCaptures} {
			s, err := d.conn.JetStream().Stream(t.Context(), "KV_"+bucket)
			if err != nil {
				t.Fatal(err)
			}
			n += s.CachedInfo().State.LastSeq
		}
		return n
	}
	large := calls("b")
	large.Text = strings.Repeat("long ", maxSmall/5)
	var before uint64
	for _, step := range []struct {
		name string
		call func()
		want uint64
	}{
		{"first", func() { c.ask("Who?", calls("a")) }, 6},                // block, start, run, reply, response, run
		{"small", func() { c.results("a", "so"); c.next(calls("a")) }, 4}, // run, reply, response, run
		{"large", func() { c.results("a", "so"); c.next(large) }, 5},      // and the call
		{"last", func() { c.results("b", "so"); c.next(says("Ann.")) }, 4},
		{"closed", func() { d.closeAll() }, 12}, // run, closed run, two references to it, eight deletions
		{"named", func() {
			c = d.client(modelapi.Chat)
			c.session, c.task = "s", "t"
			c.ask("Why?", says("So."))
		}, 9}, // and session, turn, named question
	} {
		step.call()
		now := stored()
		if got := now - before; got != step.want {
			t.Errorf("%s: got %d messages, want %d", step.name, got, step.want)
		}
		before = now
	}
}

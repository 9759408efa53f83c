package capture

import (
	"strings"
	"testing"

	"debrief/cmd/internal/modelapi"
)

// TestStoredMessages counts the messages that the server stores for each call. On a server that flushes each of them to disk,
// they limit the rate of calls.
func TestStoredMessages(t *testing.T) {
	t.Parallel()
	d := open(t)
	c := d.client(modelapi.Chat)
	stored := func() uint64 {
		s, err := d.conn.JetStream().Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.LastSeq
	}
	large := calls("b")
	large.Text = strings.Repeat("long ", maxSmall/5)
	var before uint64
	for _, step := range []struct {
		name string
		call func()
		want uint64
	}{
		{"first", func() { c.ask("Who?", calls("a")) }, 5},                // start, run, reply, response, run
		{"small", func() { c.results("a", "so"); c.next(calls("a")) }, 4}, // run, reply, response, run
		{"large", func() { c.results("a", "so"); c.next(large) }, 5},      // and the call
		{"last", func() { c.results("b", "so"); c.next(says("Ann.")) }, 4},
		{"closed", func() { d.closeAll() }, 4}, // run, closed run, two deletions
		{"named", func() {
			c = d.client(modelapi.Chat)
			c.session, c.task = "s", "t"
			c.ask("Why?", says("So."))
		}, 8}, // and session, turn, task
	} {
		step.call()
		now := stored()
		if got := now - before; got != step.want {
			t.Errorf("%s: got %d messages, want %d", step.name, got, step.want)
		}
		before = now
	}
}

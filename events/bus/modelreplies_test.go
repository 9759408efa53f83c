package bus

import (
	"testing"
	"time"
)

func TestReplyWindow(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for _, row := range []struct {
		what string
		add  func(w *replyWindow)
		want ReplyStats
	}{
		{"no reply", func(*replyWindow) {}, ReplyStats{}},
		{"each quality", func(w *replyWindow) {
			w.add(newReply(now, false, false))
			w.add(newReply(now, true, false))
			w.add(newReply(now, false, true))
		}, ReplyStats{3, 1, 1, now, now, 0, 0}},
		{"more than are kept", func(w *replyWindow) {
			for range 50 {
				w.add(newReply(now, false, true))
			}
			for range RepliesKept - 10 {
				w.add(newReply(now, false, false))
			}
		}, ReplyStats{RepliesKept, 0, 10, now, now, 0, 0}},
		{"a fault that is over", func(w *replyWindow) {
			w.add(newReply(now.Add(-3), false, false))
			w.add(newReply(now.Add(-2), true, false))
			w.add(newReply(now.Add(-1), false, false))
		}, ReplyStats{3, 1, 0, now.Add(-3), now.Add(-2), 0, 0}},
		{"old ones", func(w *replyWindow) {
			w.add(newReply(now.Add(-ReplyAge-1), false, true))
			w.add(newReply(now.Add(-ReplyAge), true, false))
		}, ReplyStats{1, 1, 0, now.Add(-ReplyAge), now.Add(-ReplyAge), 0, 0}},
	} {
		var w replyWindow
		row.add(&w)
		if got := w.stats(now); got != row.want {
			t.Errorf("%s: got %+v, want %+v", row.what, got, row.want)
		}
	}
}

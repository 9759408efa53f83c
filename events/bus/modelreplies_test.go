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
			w.add(modelReply{at: now})
			w.add(modelReply{at: now, repaired: true})
			w.add(modelReply{at: now, invalid: true})
		}, ReplyStats{3, 1, 1, now, now, 0, 0}},
		{"more than are kept", func(w *replyWindow) {
			for range 50 {
				w.add(modelReply{at: now, invalid: true})
			}
			for range RepliesKept - 10 {
				w.add(modelReply{at: now})
			}
		}, ReplyStats{RepliesKept, 0, 10, now, now, 0, 0}},
		{"a fault that is over", func(w *replyWindow) {
			w.add(modelReply{at: now.Add(-3)})
			w.add(modelReply{at: now.Add(-2), repaired: true})
			w.add(modelReply{at: now.Add(-1)})
		}, ReplyStats{3, 1, 0, now.Add(-3), now.Add(-2), 0, 0}},
		{"old ones", func(w *replyWindow) {
			w.add(modelReply{at: now.Add(-ReplyAge - 1), invalid: true})
			w.add(modelReply{at: now.Add(-ReplyAge), repaired: true})
		}, ReplyStats{1, 1, 0, now.Add(-ReplyAge), now.Add(-ReplyAge), 0, 0}},
	} {
		var w replyWindow
		row.add(&w)
		if got := w.stats(now); got != row.want {
			t.Errorf("%s: got %+v, want %+v", row.what, got, row.want)
		}
	}
}

package deltalog_test

import (
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestTextsOfShownBullets changes one bullet and removes another after a prompt had both.
func TestTextsOfShownBullets(t *testing.T) {
	t.Parallel()
	s, nc := open(t)
	w := writer(t, s, "b")
	bullet := func(n uint64, content string) playbook.Op {
		return playbook.Op{Kind: playbook.Add, Bullet: playbook.MintID("others", n), Section: "others", Content: content}
	}
	commitAndFlush(t, w, bullet(1, "Count."), bullet(2, "Ask."), bullet(3, "Wait."))
	commitAndFlush(t, w,
		playbook.Op{Kind: playbook.Update, Bullet: playbook.MintID("others", 1), Section: "others", Content: "Count twice."},
		playbook.Op{Kind: playbook.Remove, Bullet: playbook.MintID("others", 2)},
	)
	shown := func(n uint64, content string) events.ShownBullet {
		return events.ShownBullet{ID: playbook.MintID("others", n), Wording: events.WordingOf(content)}
	}
	texts := s.Texts()
	for name, test := range map[string]struct {
		book    playbook.Book
		version uint64
		shown   events.ShownBullet
		want    string
	}{
		"in the view":          {"b", 1, shown(3, "Wait."), "Wait."},
		"changed since":        {"b", 1, shown(1, "Count."), "Count."},
		"after the change":     {"b", 2, shown(1, "Count twice."), "Count twice."},
		"removed since":        {"b", 1, shown(2, "Ask."), "Ask."},
		"never a bullet":       {"b", 2, shown(4, "Ask."), ""},
		"another text":         {"b", 2, shown(3, "Wait!"), ""},
		"version to come":      {"b", 9, shown(4, "Ask."), ""},
		"playbook was deleted": {"c", 1, shown(1, "Count."), ""},
	} {
		all := []events.ShownBullet{test.shown, {ID: "x-1", Content: "Given.", Wording: 1}}
		if err := texts.Fill(t.Context(), test.book, test.version, all); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if all[0].Content != test.want || all[1].Content != "Given." {
			t.Errorf("%s: got %q and %q, want %q and the given one", name, all[0].Content, all[1].Content, test.want)
		}
	}
	afterWrong := s.Texts()
	for version, want := range []string{"", "Ask."} { // an execution with a wrong version hides the text from no other
		all := []events.ShownBullet{shown(2, "Ask.")}
		if err := afterWrong.Fill(t.Context(), "b", uint64(version), all); err != nil || all[0].Content != want {
			t.Errorf("version %d: got %q, %v, want %q", version, all[0].Content, err, want)
		}
	}
	readsOfLog, err := nc.SubscribeSync("$JS.API.DIRECT.GET." + events.StreamDeltas)
	check(t, err)
	check(t, nc.Flush())
	for range 3 { // the first part of the test has read the log for them
		check(t, texts.Fill(t.Context(), "b", 2, []events.ShownBullet{shown(4, "Ask."), shown(3, "Wait!")}))
	}
	viewed := []events.ShownBullet{shown(3, "Wait."), shown(1, "Count twice.")}
	err = s.Texts().Fill(t.Context(), "b", 2, viewed)
	if err != nil || viewed[0].Content != "Wait." || viewed[1].Content != "Count twice." {
		t.Errorf("got %+v, %v, want the texts of the view", viewed, err)
	}
	check(t, nc.Flush())
	if n, _, err := readsOfLog.Pending(); err != nil || n > 0 {
		t.Errorf("the log was read %d times, %v, want only the view to be read", n, err)
	}
	nc.Close()
	again := []events.ShownBullet{shown(1, "Count."), shown(2, "Ask.")}
	if err := texts.Fill(t.Context(), "b", 1, again); err != nil || again[0].Content != "Count." || again[1].Content != "Ask." {
		t.Errorf("without a server: got %+v, %v, want the texts of before", again, err)
	}
}

package history_test

import (
	"fmt"
	"strings"
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

// write writes a delta. Its line is who asks, the sources of reflections or a person after @, and then what for, with
// the reflections it rests on after a slash where that is not the first alone:
//
//	a,b: add one /01; tag 1
//	@ann in parts: status 1 active
//	forget a
//	restore 2
func (k *desk) write(line string) {
	words := strings.Fields(line)
	switch words[0] {
	case "forget":
		k.forget(playbook.Selector{Source: words[1]}, 1)
		return
	case "restore":
		k.restore(number(words[1]), 1)
		return
	}
	who, what, _ := strings.Cut(line, ": ")
	parts := 1
	who, large := strings.CutSuffix(who, " in parts")
	if large {
		parts = 2
	}
	if author, isPerson := strings.CutPrefix(who, "@"); isPerson {
		k.edit(author)
	} else {
		var covers []playbook.Cover
		for source := range strings.SplitSeq(who, ",") {
			covers = append(covers, k.reflection(source, "1"))
		}
		k.begin(history.Curator, covers...)
	}
	for op := range strings.SplitSeq(what, ";") {
		k.ask(op)
	}
	k.recount()
	k.commit(parts)
}

func number(s string) (n uint64) {
	if _, err := fmt.Sscan(s, &n); err != nil {
		panic(err)
	}
	return n
}

func (k *desk) ask(text string) {
	text, by, _ := strings.Cut(text, "/")
	words := append(strings.Fields(text), "", "", "")
	op := playbook.Op{Support: []int{0}}
	if by = strings.TrimSpace(by); by != "" {
		op.Support = nil
		for _, i := range by {
			op.Support = append(op.Support, int(i-'0'))
		}
	}
	if words[0] != "add" && words[0] != "see" {
		op.Bullet = playbook.MintID("others", number(words[1]))
	}
	switch words[0] {
	case "add":
		op.Kind, op.Content = playbook.Add, words[1]
	case "see":
		k.sight(words[1], op.Support...)
		return
	case "update":
		op.Kind, op.Content = playbook.Update, words[2]
	case "tag":
		op.Kind, op.Helpful = playbook.Tag, len(op.Support)
	case "harm":
		op.Kind, op.Harmful = playbook.Tag, len(op.Support)
	case "divide":
		op.Kind, op.Helpful, op.Harmful = playbook.Tag, 1, 1
	case "move": // a vote from helpful to harmful
		op.Kind, op.Was, op.Harmful = playbook.Retag, playbook.Helpful, len(op.Support)
	case "takeback":
		op.Kind, op.Was = playbook.Retag, playbook.Helpful
	case "second":
		op.Kind = playbook.Second
	case "try":
		op.Kind = playbook.Trial
		for range op.Support {
			op.Seen = append(op.Seen, playbook.Seen{Arm: playbook.ArmShown, Score: playbook.MaxScore})
		}
	case "remove":
		op.Kind = playbook.Remove
	case "merge":
		op.Kind, op.Sources, op.Content = playbook.Merge, []playbook.BulletID{playbook.MintID("others", number(words[2]))}, words[3]
	case "status":
		op.Kind, op.Status = playbook.SetStatus, playbook.Status(words[2])
	case "turn": // as rules do: nobody asked for it
		op.Kind, op.Status, op.Support = playbook.SetStatus, playbook.Status(words[2]), nil
	case "put":
		op.Kind, op.Whole = playbook.Put, &playbook.Bullet{ID: op.Bullet, Section: "others", Content: words[2]}
	default:
		k.Fatalf("unknown: %s", text)
	}
	k.do(op)
}

// brief is a state in a line: numbers, texts, votes, and "?" for quarantine.
func brief(p *playbook.Playbook) string {
	var all []string
	for _, b := range p.Sorted() {
		text := fmt.Sprintf("%s=%s", strings.TrimLeft(strings.TrimPrefix(string(b.ID), "misc-"), "0"), b.Content)
		if b.Helpful > 0 {
			text += fmt.Sprintf("+%d", b.Helpful)
		}
		if b.Harmful > 0 {
			text += fmt.Sprintf("-%d", b.Harmful)
		}
		if c := b.TheCase(); c.Seconded > 0 || c.Shown.N() > 0 {
			text += fmt.Sprintf("*%d:%d", c.Seconded, c.Shown.N())
		}
		if b.Status == playbook.Quarantined {
			text += "?"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// TestWhatForgettingLeaves: a log, and how the bullets are in the end.
func TestWhatForgettingLeaves(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		why  string
		log  []string
		want string
	}{
		{"what rests on it alone goes", []string{"a: add one", "b: add two", "forget a"}, "2=two"},
		{"what rests on other things, too, waits for a person", []string{"a,b: add one /01", "forget a"}, "1=one?"},
		{"in parts of a change, too", []string{"a,b in parts: add one; add two /01; add three /1", "forget a"}, "2=two? 3=three"},
		{"votes are told one from the other", []string{"b: add one", "a,b: tag 1 /01", "forget a"}, "1=one+1"},
		{"votes of two kinds in one operation are not", []string{"b: add one", "a,b: divide 1 /01", "forget a"}, "1=one+1-1?"},
		{"a removal is taken back", []string{"b: add one", "a: remove 1", "forget a"}, "1=one"},
		{"a merge is taken back", []string{"b: add one", "b: add two", "a: merge 1 2 both", "forget a"}, "1=one 2=two"},
		{"an earlier wording comes back", []string{"b: add one", "a: update 1 two", "forget a"}, "1=one"},
		{"what is learned from it later counts", []string{"a: add one", "forget a", "a: add two", "c: add three", "forget c"}, "2=two"},

		{"a vote that was moved goes as it is", []string{"b: add one", "a,b: tag 1 /01", "a: move 1", "forget a"}, "1=one+1"},
		{"and one that was taken back is not missed", []string{"b: add one", "a,b: tag 1 /01", "a: takeback 1", "forget a"}, "1=one+1"},
		{"votes that moved together are told apart", []string{"b: add one", "a,b: tag 1 /01", "a,b: move 1 /01", "forget a"}, "1=one-1"},
		{"so are outcomes", []string{"b: add one", "a,b,b: try 1 /012", "forget a"}, "1=one*0:2"},
		{"which are of words", []string{"b: add one", "b: try 1", "a: update 1 two", "b: try 1", "forget a", "b: try 1"}, "1=one*0:2"},
		{"and come with words that stay", []string{"b: add one", "a: update 1 two", "b: update 1 three", "b: try 1", "forget a", "b: try 1"}, "1=three*0:2"},
		{"who asked for it again would have been the first to", []string{"a: add one", "b,c: second 1 /01", "forget a"}, "1=one*1:0"},
		{"in words that are forgotten it asked for nothing", []string{"b: add one", "a: update 1 two", "c: second 1", "forget a"}, "1=one"},
		{"in other words than it was made with, it waits", []string{"a: add one", "a: update 1 two", "c: second 1", "forget a"}, "1=one?"},

		{"said by something else as well, it stays", []string{"a: add one", "b: add One", "forget a"}, "1=one"},
		{"with the votes it had before", []string{"a: add one", "b: tag 1", "b: add one", "b: tag 1", "forget a"}, "1=one+2"},
		{"said in other words, it waits", []string{"a: add one", "a: update 1 two", "b: add two", "forget a"}, "1=one?"},
		{"said and then removed, it does not stay", []string{"a: add one", "b,c: add one; remove 1 /1", "forget a"}, ""},
		{
			"said by what is forgotten later, it waits for who said it otherwise",
			[]string{"a,b: add one; add one /1; add two; merge 1 2 both", "c: add both", "forget a", "forget b"},
			"1=one?",
		},
		{"with words of something else it waits", []string{"a: add one", "b: update 1 two", "forget a"}, "1=two?"},
		{
			"and has waited since the forgetting before",
			[]string{"c: add one", "a: update 1 two", "forget c", "b: add two", "restore 0", "forget a", "restore 4"},
			"1=one?",
		},
		{
			"unless a person approved",
			[]string{"c: add one", "a: update 1 two", "forget c", "@ann: status 1 active", "b: update 1 three", "forget a"},
			"1=three",
		},

		{"merged with what is forgotten, it waits", []string{"a: add one", "b: add two", "c: merge 2 1 both", "forget a"}, "2=both?"},
		{"so with what is so in part", []string{"a,b: add one /01", "b: add two", "c: merge 2 1 both", "forget a"}, "2=both?"},
		{"what was merged into it stays", []string{"a: add one", "b: add two", "c: merge 1 2 both", "forget a"}, "2=two"},
		{"and what said it again is not merged", []string{"a: add one", "b: add two", "c: merge 1 2 both", "b: add both", "forget a"}, "1=one? 2=two"},
		{"said again and merged away, it is not one more", []string{"a: add one", "b: add two", "b,c: add one; merge 2 1 both /1", "forget a"}, "2=both?"},

		{"a quarantine lasts", []string{"a,b: add one /01", "c: add two", "forget a", "forget c"}, "1=one?"},
		{"so does an approval", []string{"a,b: add one /01", "c: add two", "forget a", "@ann: status 1 active", "forget c"}, "1=one"},
		{"what was gone then waits when it is back", []string{"a,b: add one /01", "c: remove 1", "forget a", "forget c"}, "1=one?"},
		{"so when it was merged away", []string{"a,b: add one /01", "b: add two", "c: merge 2 1 both", "forget a", "forget c"}, "1=one? 2=two"},
		{
			"but not when a person had approved it",
			[]string{"a,b: add one /01", "forget a", "@ann: status 1 active", "c: remove 1", "forget c"},
			"1=one",
		},
		{
			"what waited for one forgetting waits when another leaves less of it",
			[]string{"c,a: add one /01", "restore 0", "forget a", "restore 1", "a: update 1 two", "forget c"},
			"1=two?",
		},
		{"an import under its id is another bullet", []string{"a,b: add one /01", "b: remove 1", "@ann: put 1 new", "forget a"}, "1=new"},

		{"a restore does not bring it back", []string{"a: add one", "b: add two", "forget a", "@ann: remove 2", "restore 2"}, "2=two"},
		{"nor show what waits", []string{"a,b: add one /01", "forget a", "restore 1"}, "1=one?"},
		{"but what was approved", []string{"a,b: add one /01", "forget a", "@ann: status 1 active", "restore 1"}, "1=one"},
		{"also in a large change", []string{"a,b: add one /01", "forget a", "@ann in parts: status 1 active", "restore 1"}, "1=one"},
		{"not what turned by itself", []string{"a,b: add one /01", "forget a", "@ann: turn 1 active", "restore 1"}, "1=one?"},
		{"a restore that changed nothing does, without what is forgotten", []string{"b: add one", "b: update 1 two", "a: update 1 one", "restore 1", "forget a"}, "1=one"},
		{"said again after a restore, it stays", []string{"a: add one", "b: update 1 two", "restore 1", "b: add one", "forget a"}, "1=one"},
		{
			"votes on what is gone are those of the restored version",
			[]string{"a: add one", "b: tag 1", "b: tag 1", "b: tag 1", "b: tag 1", "restore 4", "b: harm 1", "restore 5", "b: add one", "forget a"},
			"1=one+4",
		},

		{"what a rule saw elsewhere, too, it would have seen there first", []string{"a: see x", "b: see x", "forget a"}, "1=rule x: 1+1"},
		{"and nowhere else, it never saw", []string{"a: see x", "a: see x", "forget a"}, ""},
		{"a restore counts anew what is stale", []string{"a,b: see x /01", "forget a", "restore 1"}, "1=rule x: 1+1"},
	} {
		k := newDesk(t)
		k.stale = true
		for _, line := range test.log {
			k.write(line)
		}
		if got := brief(&k.p); got != test.want {
			t.Errorf("%s: got %q, want %q\n%v", test.why, got, test.want, k)
		}
		if again := brief(k.at(k.newest())); again != test.want {
			t.Errorf("%s: the log folded anew: got %q, want %q\n%v", test.why, again, test.want, k)
		}
	}
}

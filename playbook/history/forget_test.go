package history_test

import (
	"fmt"
	"strings"
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

// writeLine writes a delta. A line begins with the sources of the reflections, or with a person after @. The
// operations follow, each with the indices of its supporting reflections after a slash; the default is 0:
//
//	a,b: add one /01; tag 1
//	@ann in parts: status 1 active
//	forget a
//	restore 2
func (k *logWriter) writeLine(line string) {
	words := strings.Fields(line)
	switch words[0] {
	case "forget":
		k.forget(playbook.Selector{Source: words[1]}, 1)
		return
	case "restore":
		k.restore(parseNumber(words[1]), 1)
		return
	}
	author, ops, _ := strings.Cut(line, ": ")
	parts := 1
	author, large := strings.CutSuffix(author, " in parts")
	if large {
		parts = 2
	}
	if person, ok := strings.CutPrefix(author, "@"); ok {
		k.edit(person)
	} else {
		var covers []playbook.Cover
		for source := range strings.SplitSeq(author, ",") {
			covers = append(covers, k.reflection(source, "1"))
		}
		k.begin(history.Curator, covers...)
	}
	for op := range strings.SplitSeq(ops, ";") {
		k.proposeText(op)
	}
	k.commit(parts)
}

func parseNumber(s string) (n uint64) {
	if _, err := fmt.Sscan(s, &n); err != nil {
		panic(err)
	}
	return n
}

func (k *logWriter) proposeText(text string) {
	text, by, _ := strings.Cut(text, "/")
	words := append(strings.Fields(text), "", "", "")
	op := playbook.Op{Support: []int{0}}
	if by = strings.TrimSpace(by); by != "" {
		op.Support = nil
		for _, i := range by {
			op.Support = append(op.Support, int(i-'0'))
		}
	}
	if words[0] != "add" {
		op.Bullet = playbook.MintID("others", parseNumber(words[1]))
	}
	switch words[0] {
	case "add":
		op.Kind, op.Content = playbook.Add, words[1]
	case "update":
		op.Kind, op.Content = playbook.Update, words[2]
	case "tag":
		op.Kind, op.Helpful = playbook.Tag, len(op.Support)
	case "harm":
		op.Kind, op.Harmful = playbook.Tag, len(op.Support)
	case "divide":
		op.Kind, op.Helpful, op.Harmful = playbook.Tag, 1, 1
	case "move": // a vote from helpful to harmful
		op.Kind, op.OldVote, op.Harmful = playbook.Retag, playbook.Helpful, len(op.Support)
	case "takeback":
		op.Kind, op.OldVote = playbook.Retag, playbook.Helpful
	case "second":
		op.Kind = playbook.Confirm
	case "try":
		op.Kind = playbook.AddExposures
		for range op.Support {
			op.Exposures = append(op.Exposures, playbook.Exposure{Arm: playbook.ArmShown, Score: playbook.MaxScore})
		}
	case "remove":
		op.Kind = playbook.Remove
	case "merge":
		op.Kind, op.Sources, op.Content = playbook.Merge, []playbook.BulletID{playbook.MintID("others", parseNumber(words[2]))}, words[3]
	case "status":
		op.Kind, op.Status = playbook.SetStatus, playbook.Status(words[2])
	case "put":
		op.Kind, op.PutBullet = playbook.Put, &playbook.Bullet{ID: op.Bullet, Section: "others", Content: words[2]}
	default:
		k.Fatalf("unknown: %s", text)
	}
	k.propose(op)
}

// summarize returns a state in one line: numbers, contents, votes, and "?" for quarantine.
func summarize(p *playbook.Playbook) string {
	var all []string
	for _, b := range p.Sorted() {
		text := fmt.Sprintf("%s=%s", strings.TrimLeft(strings.TrimPrefix(string(b.ID), "misc-"), "0"), b.Content)
		if b.Helpful > 0 {
			text += fmt.Sprintf("+%d", b.Helpful)
		}
		if b.Harmful > 0 {
			text += fmt.Sprintf("-%d", b.Harmful)
		}
		if c := b.CurrentExperiment(); c.Confirmations > 0 || c.Shown.Count() > 0 {
			text += fmt.Sprintf("*%d:%d", c.Confirmations, c.Shown.Count())
		}
		if b.Status == playbook.Quarantined {
			text += "?"
		}
		all = append(all, text)
	}
	return strings.Join(all, " ")
}

// Each case is a log and the bullets at its end.
func TestForgettingCases(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		log  []string
		want string
	}{
		{"without other support it is dropped", []string{"a: add one", "b: add two", "forget a"}, "2=two"},
		{"with other support it is quarantined", []string{"a,b: add one /01", "forget a"}, "1=one?"},
		{"also in parts of a change", []string{"a,b in parts: add one; add two /01; add three /1", "forget a"}, "2=two? 3=three"},
		{"votes are removed one by one", []string{"b: add one", "a,b: tag 1 /01", "forget a"}, "1=one+1"},
		{"but not votes of two kinds in one operation", []string{"b: add one", "a,b: divide 1 /01", "forget a"}, "1=one+1-1?"},
		{"a removal is undone", []string{"b: add one", "a: remove 1", "forget a"}, "1=one"},
		{"a merge is undone", []string{"b: add one", "b: add two", "a: merge 1 2 both", "forget a"}, "1=one 2=two"},
		{"an earlier content comes back", []string{"b: add one", "a: update 1 two", "forget a"}, "1=one"},
		{"later reflections on it count", []string{"a: add one", "forget a", "a: add two", "c: add three", "forget c"}, "2=two"},

		{"a corrected vote is removed as it is now", []string{"b: add one", "a,b: tag 1 /01", "a: move 1", "forget a"}, "1=one+1"},
		{"a vote that was taken back is not removed again", []string{"b: add one", "a,b: tag 1 /01", "a: takeback 1", "forget a"}, "1=one+1"},
		{"votes that were corrected together are removed one by one", []string{"b: add one", "a,b: tag 1 /01", "a,b: move 1 /01", "forget a"}, "1=one-1"},
		{"outcomes are removed one by one", []string{"b: add one", "a,b,b: try 1 /012", "forget a"}, "1=one*0:2"},
		{"outcomes belong to a content", []string{"b: add one", "b: try 1", "a: update 1 two", "b: try 1", "forget a", "b: try 1"}, "1=one*0:2"},
		{"and stay with content that stays", []string{"b: add one", "a: update 1 two", "b: update 1 three", "b: try 1", "forget a", "b: try 1"}, "1=three*0:2"},
		{"a repetition becomes the first proposal", []string{"a: add one", "b,c: second 1 /01", "forget a"}, "1=one*1:0"},
		{"a repetition of forgotten content has no effect", []string{"b: add one", "a: update 1 two", "c: second 1", "forget a"}, "1=one"},
		{"a repetition of other content quarantines", []string{"a: add one", "a: update 1 two", "c: second 1", "forget a"}, "1=one?"},

		{"it stays if a duplicate was rejected", []string{"a: add one", "b: add One", "forget a"}, "1=one"},
		{"with its earlier votes", []string{"a: add one", "b: tag 1", "b: add one", "b: tag 1", "forget a"}, "1=one+2"},
		{"quarantined if the duplicate has other content", []string{"a: add one", "a: update 1 two", "b: add two", "forget a"}, "1=one?"},
		{"dropped if it was removed after the duplicate", []string{"a: add one", "b,c: add one; remove 1 /1", "forget a"}, ""},
		{
			"quarantined if the first duplicate is forgotten later",
			[]string{"a,b: add one; add one /1; add two; merge 1 2 both", "c: add both", "forget a", "forget b"},
			"1=one?",
		},
		{"quarantined with content from other support", []string{"a: add one", "b: update 1 two", "forget a"}, "1=two?"},
		{
			"also if an earlier forget change quarantined it",
			[]string{"c: add one", "a: update 1 two", "forget c", "b: add two", "restore 0", "forget a", "restore 4"},
			"1=one?",
		},
		{
			"unless a person approved it",
			[]string{"c: add one", "a: update 1 two", "forget c", "@ann: status 1 active", "b: update 1 three", "forget a"},
			"1=three",
		},

		{"quarantined if a merged bullet is forgotten", []string{"a: add one", "b: add two", "c: merge 2 1 both", "forget a"}, "2=both?"},
		{"or partly forgotten", []string{"a,b: add one /01", "b: add two", "c: merge 2 1 both", "forget a"}, "2=both?"},
		{"a bullet merged into a forgotten one stays", []string{"a: add one", "b: add two", "c: merge 1 2 both", "forget a"}, "2=two"},
		{"and a duplicate of the target is not merged", []string{"a: add one", "b: add two", "c: merge 1 2 both", "b: add both", "forget a"}, "1=one? 2=two"},
		{"a duplicate that was merged is not added again", []string{"a: add one", "b: add two", "b,c: add one; merge 2 1 both /1", "forget a"}, "2=both?"},

		{"a quarantine stays after a second forget change", []string{"a,b: add one /01", "c: add two", "forget a", "forget c"}, "1=one?"},
		{"an approval stays too", []string{"a,b: add one /01", "c: add two", "forget a", "@ann: status 1 active", "forget c"}, "1=one"},
		{"quarantined if it was removed at the first forget change", []string{"a,b: add one /01", "c: remove 1", "forget a", "forget c"}, "1=one?"},
		{"quarantined if it was merged then", []string{"a,b: add one /01", "b: add two", "c: merge 2 1 both", "forget a", "forget c"}, "1=one? 2=two"},
		{
			"not quarantined if a person had approved it",
			[]string{"a,b: add one /01", "forget a", "@ann: status 1 active", "c: remove 1", "forget c"},
			"1=one",
		},
		{
			"quarantined for the first forget change, also after the second",
			[]string{"c,a: add one /01", "restore 0", "forget a", "restore 1", "a: update 1 two", "forget c"},
			"1=two?",
		},
		{"an import with its id is another bullet", []string{"a,b: add one /01", "b: remove 1", "@ann: put 1 new", "forget a"}, "1=new"},

		{"a restore does not bring it back", []string{"a: add one", "b: add two", "forget a", "@ann: remove 2", "restore 2"}, "2=two"},
		{"a restore does not show a quarantined bullet", []string{"a,b: add one /01", "forget a", "restore 1"}, "1=one?"},
		{"a restore shows an approved bullet", []string{"a,b: add one /01", "forget a", "@ann: status 1 active", "restore 1"}, "1=one"},
		{"also if approved in a large change", []string{"a,b: add one /01", "forget a", "@ann in parts: status 1 active", "restore 1"}, "1=one"},
		{"a restore without an effect has one without the forgotten update", []string{"b: add one", "b: update 1 two", "a: update 1 one", "restore 1", "forget a"}, "1=one"},
		{"it stays if a duplicate follows a restore", []string{"a: add one", "b: update 1 two", "restore 1", "b: add one", "forget a"}, "1=one"},
		{
			"votes on a dropped bullet are those of the restored version",
			[]string{"a: add one", "b: tag 1", "b: tag 1", "b: tag 1", "b: tag 1", "restore 4", "b: harm 1", "restore 5", "b: add one", "forget a"},
			"1=one+4",
		},
	} {
		k := newLogWriter(t)
		for _, line := range test.log {
			k.writeLine(line)
		}
		if got := summarize(&k.p); got != test.want {
			t.Errorf("%s: got %q, want %q\n%v", test.name, got, test.want, k)
		}
		if again := summarize(k.at(k.newest())); again != test.want {
			t.Errorf("%s: folded again from the log: got %q, want %q\n%v", test.name, again, test.want, k)
		}
	}
}

// TestReleaseWithRestoreIsKept covers a restore and a forget change that also make the gate less strict, which shows the bullet
// that waited.
func TestReleaseWithRestoreIsKept(t *testing.T) {
	t.Parallel()
	version := uint64(1)
	for name, set := range map[string]func(*playbook.Delta){
		"restore": func(d *playbook.Delta) { d.RestoredVersion = &version },
		"forget":  func(d *playbook.Delta) { d.Forget = &playbook.Selector{Source: "b"} },
	} {
		k := newLogWriter(t)
		k.writeLine("a: add one; status 1 candidate")
		k.edit("ann")
		set(k.d)
		k.d.Gate = playbook.GateOff
		k.addOp(playbook.Op{Kind: playbook.SetStatus, Bullet: playbook.MintID("others", 1), Status: playbook.Active, Support: []int{0}})
		k.commit(1)
		requireEqual(t, k, name, &k.p, k.at(k.newest()))
	}
}

// TestForgottenComparisons forgets a run with which a reflection was compared: its vote goes, and later feedback on the sample then has no
// such vote to move.
func TestForgottenComparisons(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		log  []string // operations; * marks a reflection that was compared with the forgotten run
		want string
	}{
		{"the moved vote alone counts", []string{"tag 1 *", "move 1"}, "1=one+1-1"},
		{"a vote that was taken back was not there", []string{"tag 1 *", "takeback 1"}, "1=one+1"},
		{"a forgotten correction moves nothing", []string{"tag 1", "move 1 *"}, "1=one+2"},
		{"nor does it change the vote for the next one", []string{"tag 1", "takeback 1 *", "harm 1"}, "1=one+2-1"},
		{"a merge takes the vote over", []string{"tag 2 *", "merge 1 2 both", "move 1"}, "1=both+1-1"},
		{"nothing is forgotten", []string{"tag 1", "move 1"}, "1=one+1-1"},
	} {
		k := newLogWriter(t)
		k.writeLine("b: add one; add two; tag 1")
		for _, line := range test.log {
			line, isCompared := strings.CutSuffix(line, " *")
			cover := k.reflection("a", "1")
			cover.Evidence.Sample = "the sample"
			if isCompared {
				cover.Evidence.Compared = &playbook.ComparedRun{Execution: "99-abcdef", Session: "gone"}
			}
			k.begin(history.Curator, cover)
			k.proposeText(line)
			k.commit(1)
		}
		k.forget(playbook.Selector{Session: "gone"}, 1)
		want := test.want
		if !strings.Contains(strings.Join(test.log, ""), "merge") {
			want += " 2=two"
		}
		if got := summarize(&k.p); got != want {
			t.Errorf("%s: got %s, want %s", test.name, got, want)
		}
	}
}

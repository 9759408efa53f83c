package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

func TestRejected(t *testing.T) {
	t.Parallel()
	k := sampleLog(t)
	k.begin(history.Curator, k.reflection("s", "1"))
	k.propose(playbook.Op{Kind: playbook.Tag, Bullet: "misc-00009", Helpful: 1, Support: []int{0}})
	for _, status := range []playbook.Status{playbook.Candidate, playbook.Retired, playbook.Quarantined} {
		k.propose(playbook.Op{Kind: playbook.SetStatus, Bullet: "misc-00001", Status: status, Support: []int{0}, Reason: "to " + string(status)})
	}
	k.propose(playbook.Op{Kind: playbook.Remove, Bullet: "misc-00001", Support: []int{0}, Reason: "no use"})
	k.commit(1)
	losses, err := history.Rejections(k.log)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, l := range losses {
		got = append(got, fmt.Sprintf("%d %s %s %s (%s)%s", l.Version, l.Verdict, l.Op.Kind, l.Op.Bullet, l.Reason, l.DuplicateOf))
	}
	want := []string{
		"2 duplicate ADD  (duplicate)misc-00001",
		"3 merged MERGE misc-00001 (the same twice)misc-00001",
		"13 retired STATUS misc-00001 (to retired)",
		"13 quarantined STATUS misc-00001 (to quarantined)",
		"13 removed REMOVE misc-00001 (no use)",
		"13 rejected TAG misc-00009 (unknown)",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %s\nwant %s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

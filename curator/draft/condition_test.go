package draft

import (
	"slices"
	"testing"

	"debrief/playbook"
)

// conditional returns a proposal with a condition.
func conditional(kind playbook.OpKind, id playbook.BulletID, when, text string, sources ...playbook.BulletID) playbook.Op {
	o := op(kind, id, text)
	o.Sources = sources
	var err error
	if o.When, o.Content, err = playbook.CleanText(when, text); err != nil {
		panic(err)
	}
	return o
}

const oak, pine = "the material is oak", "the material is pine"

// TestConditionsAreKept checks the texts of the playbook and the codes of the rejections after one proposal of a model.
func TestConditionsAreKept(t *testing.T) {
	t.Parallel()
	const first, second = "When the material is oak: Sand it before the stain.", "When the material is pine: Sand it before the stain."
	const coats, always = "When the material is oak: Apply 3 coats of wax.", "Wear a mask at work."
	const limit = "When the order is above 105.10 EUR: Add a note."
	for _, test := range []struct {
		name     string
		proposal playbook.Op
		want     []string // texts in place of those of the changed bullets
		gone     []string
		rejected []playbook.Reason
	}{
		{
			"an update keeps the condition", conditional(playbook.Update, "misc-00001", "", "Sand it twice before the stain."),
			[]string{"When the material is oak: Sand it twice before the stain."},
			[]string{first},
			nil,
		},
		{
			"an update adds a condition", conditional(playbook.Update, "misc-00004", "there is dust", "Wear a mask at work."),
			[]string{"When there is dust: Wear a mask at work."},
			[]string{always},
			nil,
		},
		{
			"an update widens the condition", conditional(playbook.Update, "misc-00001", "the material is oak or beech", "Sand it before the stain."),
			[]string{"When the material is oak or beech: Sand it before the stain."},
			[]string{first},
			nil,
		},
		{
			"an update corrects the limit of a condition", conditional(playbook.Update, "misc-00005", "the order is above 104.10 EUR", "Add a note."),
			[]string{"When the order is above 104.10 EUR: Add a note."},
			[]string{limit},
			nil,
		},
		{
			"an update for another row of a table is another bullet", conditional(playbook.Update, "misc-00005", "the order is above 500 EUR", "Add 2 notes."),
			[]string{"When the order is above 500 EUR: Add 2 notes."},
			nil,
			nil,
		},
		{
			"an update for another condition is another bullet", conditional(playbook.Update, "misc-00001", "the material is steel", "Degrease it."),
			[]string{"When the material is steel: Degrease it."},
			nil,
			nil,
		},
		{
			"a merge names both conditions", conditional(playbook.Merge, "misc-00001", "the material is oak or pine", "Sand it before the stain.", "misc-00002"),
			[]string{"When the material is oak or pine: Sand it before the stain."},
			[]string{first, second},
			nil,
		},
		{
			"a merge without a condition", conditional(playbook.Merge, "misc-00001", "", "Sand it before the stain.", "misc-00002"),
			nil,
			nil,
			[]playbook.Reason{playbook.ReasonCondition},
		},
		{
			"a merge with one of two conditions", conditional(playbook.Merge, "misc-00001", oak, "Sand it before the stain.", "misc-00002"),
			nil,
			nil,
			[]playbook.Reason{playbook.ReasonCondition},
		},
		{
			"a merge of one condition keeps it", conditional(playbook.Merge, "misc-00001", "", "Sand it before the stain, then apply 3 coats of wax.", "misc-00003"),
			[]string{"When the material is oak: Sand it before the stain, then apply 3 coats of wax."},
			[]string{first, coats},
			nil,
		},
		{
			"a merge loses a number", conditional(playbook.Merge, "misc-00001", "", "Sand it, stain it and wax it.", "misc-00003"),
			nil,
			nil,
			[]playbook.Reason{playbook.ReasonCondition},
		},
		{
			"a merge of different conditions and different advice", conditional(playbook.Merge, "misc-00003", "the material is oak or pine", "Apply 3 coats of wax. Sand it before the stain.", "misc-00002"),
			nil,
			nil,
			[]playbook.Reason{playbook.ReasonCondition},
		},
		{
			"a merge restricts a bullet that holds always", conditional(playbook.Merge, "misc-00004", oak, "Sand it before the stain. Wear a mask at work.", "misc-00001"),
			nil,
			nil,
			[]playbook.Reason{playbook.ReasonCondition},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			n := new(draftTest)
			n.take(t, asks(
				conditional(playbook.Add, "", oak, "Sand it before the stain."), conditional(playbook.Add, "", pine, "Sand it before the stain."),
				conditional(playbook.Add, "", oak, "Apply 3 coats of wax."), conditional(playbook.Add, "", "", always),
				conditional(playbook.Add, "", "the order is above 105.10 EUR", "Add a note."),
			))
			n.deltas = nil
			n.take(t, asks(test.proposal))
			want := map[string]playbook.Status{}
			for _, text := range append([]string{first, second, coats, always, limit}, test.want...) {
				if !slices.Contains(test.gone, text) {
					want[text] = active
				}
			}
			n.want(t, "texts", want)
			if got := n.rejected(); !slices.Equal(got, test.rejected) {
				t.Errorf("rejected %q, want %q", got, test.rejected)
			}
			for b := range n.p.All() {
				if b.Content != always && b.When == "" {
					t.Errorf("%q has lost its condition", b.Content)
				}
			}
		})
	}
}

// TestCorrectionKeepsTheCondition checks that a correction of a supported bullet, which waits as a candidate, has its condition.
func TestCorrectionKeepsTheCondition(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.take(t, asks(conditional(playbook.Add, "", oak, "Sand it before the stain.")))
	n.cite(t, "When the material is oak: Sand it before the stain.", "++++++++++++++++++++++++")
	n.take(t, asks(op(playbook.Update, "misc-00001", "Sand it after the stain.")))
	if b := n.said(t, "When the material is oak: Sand it after the stain."); b.When != oak || b.Replaces != "misc-00001" {
		t.Errorf("got %+v", b)
	}
}

// TestMergeIntoACoveringBullet checks when a MERGE removes a bullet whose condition it does not name: if the text of a bullet with good
// outcomes stays, and says the same for more cases.
func TestMergeIntoACoveringBullet(t *testing.T) {
	t.Parallel()
	const always = "Apply 3 coats of wax."
	for name, test := range map[string]struct {
		when, advice string // of the bullet with good outcomes
		unproven     bool   // it has none
		source       playbook.Op
		merged       playbook.Op // its text
		rejected     []playbook.Reason
	}{
		"a special case":               {oak, always, false, conditional(playbook.Add, "", "the material is oak and it is a table", "Apply coats of wax."), conditional("", "", oak, always), nil},
		"without the condition":        {oak, always, false, conditional(playbook.Add, "", "the material is oak and it is a table", "Apply coats of wax."), conditional("", "", "", always), nil},
		"a case of advice without one": {"", always, false, conditional(playbook.Add, "", pine, "Apply 3 coats."), conditional("", "", "", always), nil},
		"another case":                 {oak, always, false, conditional(playbook.Add, "", pine, "Apply coats of wax."), conditional("", "", oak, always), []playbook.Reason{playbook.ReasonCondition}},
		"an exception":                 {oak, always, false, conditional(playbook.Add, "", "the material is not oak", "Apply coats of wax."), conditional("", "", oak, always), []playbook.Reason{playbook.ReasonCondition}},
		"another number":               {oak, always, false, conditional(playbook.Add, "", "the material is oak and it is a table", "Apply 4 coats of wax."), conditional("", "", oak, always), []playbook.Reason{playbook.ReasonCondition}},
		"another word":                 {oak, always, false, conditional(playbook.Add, "", "the material is oak and it is a table", "Apply 3 coats of oil."), conditional("", "", oak, always), []playbook.Reason{playbook.ReasonCondition}},
		"a bullet without an outcome":  {oak, always, true, conditional(playbook.Add, "", "the material is oak and it is a table", "Apply coats of wax."), conditional("", "", oak, always), []playbook.Reason{playbook.ReasonCondition}},
	} {
		n := trying(t, playbook.GateGuard)
		_, first, err := playbook.CleanText(test.when, test.advice)
		if err != nil {
			t.Fatal(err)
		}
		n.take(t, asks(conditional(playbook.Add, "", test.when, test.advice)))
		if !test.unproven {
			n.cite(t, first, "+")
		}
		n.take(t, asks(test.source))
		n.deltas = nil
		merge := test.merged
		merge.Kind, merge.Bullet, merge.Sources = playbook.Merge, "misc-00001", []playbook.BulletID{"misc-00002"}
		n.take(t, asks(merge))
		if got := n.rejected(); !slices.Equal(got, test.rejected) {
			t.Errorf("%s: rejected %q, want %q", name, got, test.rejected)
		}
		kept := n.p.Bullet("misc-00001")
		isMerged, want := n.p.Bullet("misc-00002") == nil, len(test.rejected) == 0
		experiment := kept.CurrentExperiment()
		if isMerged != want || kept.Content != first || !test.unproven && experiment.Cited.Count() != 1 {
			t.Errorf("%s: merged %t, want %t; got the bullet %+v, want its text and outcomes unchanged", name, isMerged, want, kept)
		}
	}
}

package events_test

import (
	"fmt"
	"slices"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

func TestExposures(t *testing.T) {
	t.Parallel()
	drawn := func(arm playbook.Arm, cited bool) events.Exposure {
		return events.Exposure{Bullet: "a-1", Experiment: 3, Arm: arm, Cited: cited}
	}
	open := events.Exposure{Bullet: "a-2", Experiment: 7, Arm: playbook.ArmOpen, Cited: true}
	bullets := []events.ShownBullet{{ID: "a-1", Experiment: 3}, {ID: "a-2", Experiment: 7}, {ID: "a-3", Experiment: 9}}
	for name, test := range map[string]struct {
		drawn []events.Exposure // in the manifest; nil for no manifest
		shown []events.ShownBullet
		cited []playbook.BulletID
		want  []events.Exposure
	}{
		"no manifest":                   {nil, bullets, []playbook.BulletID{"a-2", "a-4"}, []events.Exposure{open}},
		"no citation":                   {nil, bullets, nil, nil},
		"shown and cited":               {[]events.Exposure{drawn(playbook.ArmShown, false)}, bullets, []playbook.BulletID{"a-2", "a-1"}, []events.Exposure{drawn(playbook.ArmShown, true), open}},
		"shown and not cited":           {[]events.Exposure{drawn(playbook.ArmShown, false)}, bullets, nil, []events.Exposure{drawn(playbook.ArmShown, false)}},
		"withheld":                      {[]events.Exposure{drawn(playbook.ArmWithheld, false)}, bullets[1:], []playbook.BulletID{"a-1"}, []events.Exposure{drawn(playbook.ArmWithheld, false)}},
		"cited twice counts once":       {[]events.Exposure{}, bullets, []playbook.BulletID{"a-2", "a-2"}, []events.Exposure{open}},
		"cited, but it was not shown":   {[]events.Exposure{}, bullets[:1], []playbook.BulletID{"a-2"}, nil},
		"citations in the manifest lie": {[]events.Exposure{drawn(playbook.ArmWithheld, true)}, nil, []playbook.BulletID{"a-1"}, []events.Exposure{drawn(playbook.ArmWithheld, false)}},
	} {
		e := &events.Execution{Shown: test.shown, Cited: test.cited}
		if test.drawn != nil {
			e.Manifest = &events.Manifest{Exposures: slices.Clone(test.drawn)}
		}
		if got := e.Exposures(); !slices.Equal(got, test.want) {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
		if test.drawn != nil && !slices.Equal(e.Manifest.Exposures, test.drawn) {
			t.Errorf("%s: the manifest has changed to %+v", name, e.Manifest.Exposures)
		}
	}
	many := &events.Execution{Manifest: &events.Manifest{Exposures: []events.Exposure{drawn(playbook.ArmShown, false)}}}
	for n := range 2 * events.MaxExposures {
		id := playbook.BulletID(fmt.Sprint("b-", n))
		many.Shown, many.Cited = append(many.Shown, events.ShownBullet{ID: id}), append(many.Cited, id)
	}
	if got := many.Exposures(); len(got) != events.MaxExposures || got[0].Bullet != "a-1" {
		t.Errorf("got %d exposures, the first %+v, want %d, the experiment first", len(got), got[0], events.MaxExposures)
	}
}

package playbook_test

import (
	"strings"
	"testing"

	"debrief/playbook"
)

func TestDeltaValidate(t *testing.T) {
	t.Parallel()
	one := func(op playbook.Op) playbook.Delta {
		return playbook.Delta{Version: 1, Covers: make([]playbook.Cover, 3), Ops: []playbook.Op{op}}
	}
	tag := func(helpful, harmful, neutral int, support ...int) playbook.Delta {
		return one(playbook.Op{Kind: playbook.Tag, Bullet: "b", Helpful: helpful, Harmful: harmful, Neutral: neutral, Support: support})
	}
	seen := func(exposures ...playbook.Exposure) playbook.Delta {
		return one(playbook.Op{Kind: playbook.AddExposures, Bullet: "b", Exposures: exposures, Support: []int{0}})
	}
	whole := func(change func(*playbook.Bullet)) playbook.Delta {
		b := &playbook.Bullet{ID: "b", Section: "others", Content: "c", Experiment: &playbook.Experiment{Number: 1, Standing: playbook.StandingTrusted, Recent: "+-"}}
		change(b)
		return one(playbook.Op{Kind: playbook.Put, Bullet: "b", PutBullet: b})
	}
	for _, test := range []struct {
		why   string
		delta playbook.Delta
		want  string // the field, "" for a valid delta
	}{
		{"the first", playbook.Delta{Version: 1}, ""},
		{"a later one", playbook.Delta{Version: 2, PrevChain: []byte{1}}, ""},
		{"no version", playbook.Delta{}, "version:"},
		{"the first with something before it", playbook.Delta{Version: 1, PrevChain: []byte{1}}, "previous_chain"},
		{"a later one with nothing before it", playbook.Delta{Version: 2}, "previous_chain"},

		{"an ADD", one(playbook.Op{Kind: playbook.Add, Bullet: "b", Section: "others", Content: "c", Support: []int{2}}), ""},
		{"an operation without a bullet", one(playbook.Op{Kind: playbook.Pin}), "operations[0]: bullet_id:"},
		{"an unknown type", one(playbook.Op{Kind: "MOVE", Bullet: "b"}), `type "MOVE"`},
		{"support without a cover", one(playbook.Op{Kind: playbook.Remove, Bullet: "b", Support: []int{3}}), "support: index 3"},
		{"negative support", one(playbook.Op{Kind: playbook.Remove, Bullet: "b", Support: []int{-1}}), "support: index -1"},
		{"an ADD without content", one(playbook.Op{Kind: playbook.Add, Bullet: "b"}), "content:"},
		{"content with CRLF", one(playbook.Op{Kind: playbook.Update, Bullet: "b", Content: "a\r\nb"}), "content:"},
		{"content with white space around it", one(playbook.Op{Kind: playbook.Merge, Bullet: "b", Content: "a "}), "content:"},
		{"content that is too long", one(playbook.Op{Kind: playbook.Add, Bullet: "b", Content: strings.Repeat("a", playbook.MaxContent+1)}), "content:"},
		{"a section with a forged header", one(playbook.Op{Kind: playbook.Update, Bullet: "b", Content: "a", Section: "x\n## Forged"}), "section:"},
		{"an UPDATE that keeps the section", one(playbook.Op{Kind: playbook.Update, Bullet: "b", Content: "a"}), ""},

		{"two votes with two supporting reflections", tag(1, 1, 0, 0, 1), ""},
		{"two votes with one supporting reflection", tag(2, 0, 0, 0), "votes:"},
		{"a vote without support", tag(1, 0, 0), "votes:"},
		{"no vote", tag(0, 0, 0, 0), "votes:"},
		{"a negative vote", tag(2, -1, 0, 0), "helpful, harmful, neutral:"},

		{"a shown exposure", seen(playbook.Exposure{Arm: playbook.ArmShown, Score: 10}), ""},
		{"a cited exposure", seen(playbook.Exposure{Arm: playbook.ArmShown, Cited: true}), ""},
		{"an open exposure", seen(playbook.Exposure{Arm: playbook.ArmOpen, Cited: true}), ""},
		{"an open exposure without a citation", seen(playbook.Exposure{Arm: playbook.ArmOpen}), "exposures: cited:"},
		{"a withheld exposure with a citation", seen(playbook.Exposure{Arm: playbook.ArmWithheld, Cited: true}), "exposures: cited:"},
		{"an unknown arm", seen(playbook.Exposure{Arm: "odd"}), "exposures: unknown arm"},
		{"a negative score", seen(playbook.Exposure{Arm: playbook.ArmShown, Score: -1}), "exposures: score"},
		{"a score that is too high", seen(playbook.Exposure{Arm: playbook.ArmShown, Score: 11}), "exposures: score"},
		{"more exposures than support", seen(make([]playbook.Exposure, 2)...), "exposures: requires"},
		{"no exposure", seen(), "exposures: requires"},

		{"a STATUS with a standing", one(playbook.Op{Kind: playbook.SetStatus, Bullet: "b", Standing: playbook.StandingKept, Restart: true}), ""},
		{"an unknown standing", one(playbook.Op{Kind: playbook.SetStatus, Bullet: "b", Standing: "odd"}), "standing: unknown"},
		{"an ADD against another bullet", one(playbook.Op{Kind: playbook.Add, Bullet: "b", Content: "c", Replaces: "a-1", Contests: "a-2"}), ""},
		{"an invalid replaced id", one(playbook.Op{Kind: playbook.Add, Bullet: "b", Content: "c", Replaces: "a]"}), "replaces:"},
		{"an invalid contested id", one(playbook.Op{Kind: playbook.Add, Bullet: "b", Content: "c", Contests: "a\n"}), "contests:"},

		{"a PUT with a record", whole(func(*playbook.Bullet) {}), ""},
		{"a PUT without a record", whole(func(b *playbook.Bullet) { b.Experiment = nil }), ""},
		{"a PUT with an unknown standing", whole(func(b *playbook.Bullet) { b.Experiment.Standing = "odd" }), "bullet.experiment.standing:"},
		{"a PUT with a negative number", whole(func(b *playbook.Bullet) { b.Experiment.Number = -1 }), "bullet.experiment.number"},
		{"a PUT with negative confirmations", whole(func(b *playbook.Bullet) { b.Experiment.Confirmations = -1 }), "bullet.experiment.number"},
		{"a PUT with a negative count", whole(func(b *playbook.Bullet) { b.Experiment.Cited[3] = -1 }), "bullet.experiment.shown"},
		{"a PUT with other characters", whole(func(b *playbook.Bullet) { b.Experiment.Recent = "+x-" }), "bullet.experiment.recent:"},
		{"a PUT with a long history", whole(func(b *playbook.Bullet) { b.Experiment.Recent = strings.Repeat("+", 33) }), "bullet.experiment.recent:"},
		{"a PUT with an invalid contested id", whole(func(b *playbook.Bullet) { b.Contests = "a]" }), "bullet.contests:"},

		{"gate guard", playbook.Delta{Version: 1, Gate: playbook.GateGuard}, ""},
		{"gate strict", playbook.Delta{Version: 1, Gate: playbook.GateStrict}, ""},
		{"gate off", playbook.Delta{Version: 1, Gate: playbook.GateOff}, ""},
		{"an unknown gate", playbook.Delta{Version: 1, Gate: "maybe"}, "gate: must be off, guard or strict"},
	} {
		err := test.delta.Validate()
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: got %v, want %q", test.why, err, test.want)
		}
	}
}

package curator

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/curator/draft"
	"debrief/curator/propose"
	"debrief/curator/screen"
	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// careless is a model that reads only the advice of the bullets in its prompt. It merges and updates what sounds alike, and seldom gives
// the conditions of the bullets.
type careless struct{ rng *rand.Rand }

var bulletLine = regexp.MustCompile(`(?m)^- \[([^\]]+)\] (?:When (.*?): )?(.*) \(helpful=\d+, harmful=\d+\)$`)

func (c *careless) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	type operation struct {
		Type        string   `json:"type"`
		Bullet      string   `json:"bullet_id"`
		Sources     []string `json:"source_ids"`
		When        string   `json:"when"`
		Content     string   `json:"content"`
		Reflections []int    `json:"reflections"`
	}
	var o operation
	bullets := bulletLine.FindAllStringSubmatch(p.Messages[1].Text, -1)
	if len(bullets) > 1 {
		a := bullets[c.rng.IntN(len(bullets))]
		b := slices.MaxFunc(bullets, func(x, y []string) int { return shared(a, x) - shared(a, y) })
		both := a[2] + " or " + b[2]
		o = []operation{
			{Type: "MERGE", Content: a[3]},
			{Type: "MERGE", When: a[2], Content: a[3]},
			{Type: "MERGE", When: both, Content: a[3]},
			{Type: "MERGE", When: both, Content: a[3] + " " + b[3]},
			{Type: "UPDATE", Content: a[3] + " Take care."},
			{Type: "UPDATE", When: b[2], Content: b[3]},
		}[c.rng.IntN(6)]
		o.Bullet, o.Reflections = a[1], []int{1}
		if o.Type == "MERGE" {
			o.Sources = []string{a[1], b[1]}
		}
	} else {
		o = operation{Type: "SAME", Bullet: "none"}
	}
	text, err := json.Marshal(map[string]any{"reasoning": "", "operations": []operation{o}})
	return chat.Reply{Text: string(text), Model: "careless", Finish: "stop"}, err
}

// shared returns the number of words that the advice of two bullets shares; -1 for the same bullet.
func shared(a, b []string) (n int) {
	if a[1] == b[1] {
		return -1
	}
	for _, w := range strings.Fields(a[3]) {
		if slices.Contains(strings.Fields(b[3]), w) {
			n++
		}
	}
	return n
}

// TestCarelessModelLosesNoRule checks that after many passes with a careless model each of the rules is still in the playbook, with its
// condition. DEBRIEF_LONG=1 takes 1,000 passes. The control has the same texts, in bullets without the field of the condition: there the Curator merges from the texts
// alone, and rules are lost.
func TestCarelessModelLosesNoRule(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	passes := 250
	if os.Getenv("DEBRIEF_LONG") != "" {
		passes = 1000
	}
	type rule struct{ when, advice string }
	var rules []rule
	for i, material := range strings.Fields("oak pine steel brass slate bone") {
		for k, step := range strings.Fields("sanding sealing waxing") {
			rules = append(rules, rule{"the material is " + material, fmt.Sprintf("Let the piece rest for %d hours after %s.", 2+i/2+k, step)})
		}
	}
	run := func(t *testing.T, asField bool) (lost, merges int) {
		p, rejected, bullets := new(playbook.Playbook), new(propose.RejectionLog), new(propose.BulletIndex)
		proposer := propose.Proposer{Model: &careless{rand.New(rand.NewPCG(1, 2))}, Rules: screen.NewRules()}
		for i := range passes {
			r := rules[i%len(rules)]
			when, content, err := playbook.CleanText(r.when, r.advice)
			if i >= len(rules) { // a fresh text, so that the model is asked
				content += fmt.Sprintf(" Seen in job %d.", i)
			}
			if !asField {
				when = ""
			}
			if err != nil {
				t.Fatal(err)
			}
			id := events.Hash("pass", fmt.Sprint(i))
			reflection := &events.Reflection{
				ID: id, Execution: id, Handle: events.NewHandle(uint64(i+1), id), KeyInsight: content, Model: "m",
				Lessons: []events.Lesson{{Section: "others", When: when, Content: content}},
			}
			item := &propose.Item{Item: draft.Item{ID: id, Seq: uint64(i + 1), Reflection: reflection}, NoModel: i < len(rules)}
			proposer.Propose(t.Context(), &propose.Round{Playbook: p, Rejections: rejected, Bullets: bullets}, []*propose.Item{item})
			out := draft.Build(p, draft.Config{}, []*draft.Item{&item.Item}, nil)
			for _, d := range out.Deltas {
				d.Version = p.Version() + 1
				if d.Version > 1 {
					d.PrevChain = []byte{1}
				}
				if err := d.Validate(); err != nil {
					t.Fatal(err)
				}
				if _, err := p.Apply(d); err != nil {
					t.Fatal(err)
				}
				rejected.Add(d)
				for _, op := range d.Ops {
					if op.Kind == playbook.Merge {
						merges++
					}
				}
			}
		}
		for _, r := range rules {
			isThere := false
			for b := range p.All() {
				condition := b.When
				if !asField {
					condition = b.Content
				}
				isThere = isThere || b.Shown() && strings.Contains(condition, r.when) && strings.Contains(b.Content, r.advice)
			}
			if !isThere {
				lost++
				if asField {
					t.Errorf("lost: when %s: %s", r.when, r.advice)
				}
			}
		}
		return lost, merges
	}
	lost, merges := run(t, true)
	t.Logf("%d passes, %d rules: %d merges, %d rules lost", passes, len(rules), merges, lost)
	if merges == 0 {
		t.Error("no merge was possible")
	}
	control, merges := run(t, false)
	t.Logf("control, from texts alone: %d merges, %d rules lost", merges, control)
	if control == 0 {
		t.Error("the control lost no rule")
	}
}

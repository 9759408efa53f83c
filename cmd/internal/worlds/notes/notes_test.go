package notes

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/world"
)

// system returns a system prompt with bullets.
func system(bullets []string) string {
	var out strings.Builder
	out.WriteString("You answer tasks.\n\n## Learned Strategies\n\n### Notes\n")
	for i, b := range bullets {
		fmt.Fprintf(&out, "- [rule-%05d] %s\n", i, b)
	}
	return out.String()
}

// accuracy returns the share of right answers.
func accuracy(w world.World, tasks []world.Task, bullets []string) float64 {
	prompt := system(bullets)
	right := 0
	for _, t := range tasks {
		if w.Verdict(t, w.Attempt(t, prompt)).Right {
			right++
		}
	}
	return float64(right) / float64(len(tasks))
}

func TestBaselineAndCeiling(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for seed := range uint64(5) {
		w := New(seed, world.Default())
		tasks := w.HeldOut(0, 600)
		for _, c := range []struct {
			name        string
			bullets     []string
			least, most float64
		}{
			{"none", nil, 0, 0.10},
			{"platitudes", w.Platitudes(40), 0, 0.10},
			{"nonsense", w.Nonsense(40), 0, 0.10},
			{"distractors", w.Distractors(500), 0, 0.10},
			{"by hand", w.ByHand(0), 0.99, 1},
			{"by hand among distractors", append(w.Distractors(500), w.ByHand(0)...), 0.99, 1},
		} {
			got := accuracy(w, tasks, c.bullets)
			t.Logf("seed %d, %s: %.3f", seed, c.name, got)
			if got < c.least || got > c.most {
				t.Errorf("seed %d, %s: accuracy %.3f, want %.2f to %.2f", seed, c.name, got, c.least, c.most)
			}
		}
	}
}

// TestBulletsDecideAnswers removes and alters each rule by hand. Exactly the answers that it decides must change.
func TestBulletsDecideAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	w := New(3, world.Default())
	tasks := w.HeldOut(0, 120)
	hand := w.ByHand(0)
	before := make([]string, len(tasks))
	for i, task := range tasks {
		before[i] = w.Attempt(task, system(hand)).Answer
	}
	changed := 0
	for rule := range hand {
		account := w.ledger.rules[rule].account
		altered, removed := slices.Clone(hand), slices.Clone(hand)
		altered[rule] = strings.Replace(altered[rule], account, "6999", 1)
		removed[rule] = "Removed."
		for i, task := range tasks {
			note := language().readNote(task.Question)
			isDeciding := slices.Contains(task.Deciding, rule) && note.stated == ""
			if got := w.Attempt(task, system(altered)).Answer; got == "6999" != isDeciding || !isDeciding && got != before[i] {
				t.Errorf("rule %d altered, %s: %s before, %s after", rule, task.ID, before[i], got)
			}
			// A more general rule can give the same account.
			isRepeated := false
			for j, r := range w.ledger.rules {
				isRepeated = isRepeated || j != rule && r.account == account && r.fits(&note)
			}
			got := w.Attempt(task, system(removed)).Answer
			if (got != before[i]) != isDeciding && !isRepeated {
				t.Errorf("rule %d removed, %s: %s before, %s after", rule, task.ID, before[i], got)
			}
			if got != before[i] {
				changed++
			}
		}
	}
	if changed < 100 {
		t.Errorf("%d answers changed without their rule, want nearly 120", changed)
	}
}

func TestDeterminism(t *testing.T) {
	t.Parallel()
	a, b := New(7, world.Default()), New(7, world.Default())
	b.HeldOut(0, 50) // another order of calls
	b.Train(10)
	if !reflect.DeepEqual(a.Train(200), b.Train(200)) || !reflect.DeepEqual(a.HeldOut(0, 100), b.HeldOut(0, 100)) {
		t.Error("tasks differ between two worlds of one seed")
	}
	if !reflect.DeepEqual(a.ByHand(0), b.ByHand(0)) || reflect.DeepEqual(a.ByHand(0), New(8, world.Default()).ByHand(0)) {
		t.Error("rules by hand: want the same for one seed and others for another")
	}
	texts := append(a.ByHand(0), a.Train(1)[0].Question)
	if !reflect.DeepEqual(a.Embed(texts), b.Embed(texts)) {
		t.Error("vectors differ between two worlds of one seed")
	}
	m := reflection(a.Train(1)[0], world.Attempt{Answer: "1"}, world.Verdict{Feedback: "No, 4630."}, nil)
	if a.Reply("reflector", m) != b.Reply("reflector", m) {
		t.Error("replies to one prompt differ")
	}
}

// TestFrequencies checks the long tail of the rules.
func TestFrequencies(t *testing.T) {
	t.Parallel()
	w := New(1, world.Default())
	count := make([]int, 60)
	for _, task := range w.Train(6000) {
		count[task.Deciding[0]]++
	}
	slices.Sort(count)
	least, most := float64(count[0])/6000, float64(count[59])/6000
	t.Logf("rarest rule %.4f of tasks, median %.4f, most frequent %.4f; %d accounts", least, float64(count[30])/6000, most, len(w.ledger.accounts()))
	if least < 0.001 || least > 0.006 || most < 0.04 || most > 0.08 || len(w.ledger.accounts()) < 35 {
		t.Errorf("shares %.4f to %.4f, %d accounts", least, most, len(w.ledger.accounts()))
	}
}

var functionWords = strings.Fields("a an the of for to and or is on in with as at by it that has under what we which into no be are from this expense note account does go answer its number alone eur")

func contentWords(text string) map[string]bool {
	out := make(map[string]bool)
	for _, w := range words(text) {
		if !slices.Contains(functionWords, w) {
			out[w] = true
		}
	}
	return out
}

// TestSurfaceForms checks that notes differ, that held-out notes are new, and that rules use other words than notes.
func TestSurfaceForms(t *testing.T) {
	t.Parallel()
	w := New(1, world.Default())
	masked := make(map[string]bool)
	seen := make(map[string]bool)
	without, overlap := 0, 0
	digits := regexp.MustCompile(`\d+`)
	hand := w.ByHand(0)
	for _, task := range w.Train(6000) {
		seen[task.Question] = true
		masked[digits.ReplaceAllString(task.Question, "0")] = true
		shared := 0
		rule := contentWords(hand[task.Deciding[0]])
		for word := range contentWords(task.Question) {
			if rule[word] {
				shared++
			}
		}
		overlap += shared
		if shared == 0 {
			without++
		}
	}
	t.Logf("6000 notes: %d different, %d with numbers masked; deciding rule shares no word with %.1f %% of notes, %.2f words on average",
		len(seen), len(masked), float64(without)/60, float64(overlap)/6000)
	if len(seen) < 6000 || len(masked) < 3000 {
		t.Errorf("%d different notes, %d with numbers masked, want 6000 and at least 3000", len(seen), len(masked))
	}
	if float64(without) < 0.6*6000 {
		t.Errorf("%d of 6000 notes share no word with their rule, want at least 3600", without)
	}
	for _, task := range w.HeldOut(0, 300) {
		if seen[task.Question] {
			t.Errorf("%s is also a training task", task.ID)
		}
	}
	for i, text := range hand {
		if n := len(strings.Fields(text)); n < 12 || n > 35 {
			t.Errorf("rule %d has %d words, want 12 to 35: %s", i, n, text)
		}
	}
}

// TestVocabulary checks that every phrase has one meaning, in casual and in formal words.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	v := language()
	for id, c := range v.concepts {
		for _, forms := range [][]string{c.casual, c.formal} {
			for _, form := range forms {
				if got := v.find("x " + form + " x"); !slices.Equal(got, []string{id}) {
					t.Errorf("%q: read as %v, want %s", form, got, id)
				}
			}
		}
		casual := contentWords(strings.Join(c.casual, " "))
		for word := range contentWords(strings.Join(c.formal, " ")) {
			if casual[word] && c.class != name && c.class != detail {
				t.Errorf("%s: word %q is casual and formal", id, word)
			}
		}
	}
	for _, list := range [][]string{platitudes, nonsense, fillers, vague, connector, praise, persons, nameForms} {
		for _, text := range list {
			if got := v.find(text); len(got) > 0 {
				t.Errorf("%q: contains %v, want no concept", text, got)
			}
		}
	}
}

// TestStatedRulesAreRead writes rules in all wordings and reads them.
func TestStatedRulesAreRead(t *testing.T) {
	t.Parallel()
	w := New(2, world.Default())
	v := language()
	for i := range w.ledger.rules {
		for n := range 40 {
			p := phrasing{s: draws(uint64(n), fmt.Sprint(i)), varying: n > 0, casual: n%2 == 1}
			for _, list := range [][]string{sentences, handSentences} {
				text := p.state(&w.ledger.rules[i], list)
				got, ok := v.readRule(text)
				if !ok || !reflect.DeepEqual(got, w.ledger.rules[i]) {
					t.Errorf("%s\nread as %+v, want %+v", text, got, w.ledger.rules[i])
				}
				if !w.States(text, 0, i) || w.States(text, 0, (i+1)%len(w.ledger.rules)) {
					t.Errorf("%s\ndoes not state rule %d alone", text, i)
				}
			}
		}
	}
}

// TestModelKnowsNoRules checks that no file of the model uses the hidden rules.
func TestModelKnowsNoRules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	world := []string{"ledger.go", "tasks.go", "notes.go", "controls.go"}
	checked := 0
	for _, f := range files {
		if slices.Contains(world, f) || strings.HasSuffix(f, "_test.go") {
			continue
		}
		checked++
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if found := regexp.MustCompile(`\b(ledger|thresholds)\b[.\[ ]`).Find(regexp.MustCompile(`(?m)//.*$|"[^"\n]*"`).ReplaceAll(text, nil)); found != nil {
			t.Errorf("%s uses %s", f, found)
		}
	}
	if checked < 5 {
		t.Errorf("checked %d files", checked)
	}
}

// reflection returns a Reflector's prompt.
func reflection(task world.Task, a world.Attempt, v world.Verdict, shown []prompt.Bullet) []world.Message {
	var user strings.Builder
	outcome := "failure (score 0.00 of 1)."
	if v.Right {
		outcome = "success."
	}
	fmt.Fprintf(&user, "Outcome: %s\n", outcome)
	quote := func(name, text string) {
		fmt.Fprintf(&user, "\n[[begin %s 0123456789abcdef]]\n%s\n[[end %s 0123456789abcdef]]\n", name, text, name)
	}
	quote("question", task.Question)
	var lines strings.Builder
	for _, b := range shown {
		lines.WriteString(prompt.JSON(map[string]any{"id": b.ID, "content": b.Text, "cited": b.Cited}) + "\n")
	}
	quote("bullets shown", lines.String())
	quote("answer", a.Answer)
	quote("feedback", v.Feedback)
	return []world.Message{{Speaker: "system", Text: "You look at one attempt."}, {Speaker: "user", Text: user.String()}}
}

package replay

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/cmd/internal/train/dataset"
	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/scoring"
)

// answerer answers published tasks: of every four, one right, one right in another notation, one wrong, and one not
// at all.
type answerer struct {
	model
	tasks   []events.Task
	answers map[string]string // answers by task id
}

func newClerk(tasks []events.Task) *answerer {
	c := &answerer{model: model{invoices: invoice.NewModel(0, worlds.Imperfection{})}, tasks: tasks, answers: map[string]string{}}
	same := map[string]string{} // two of the published tasks are equal
	for i, t := range tasks {
		say := t.Target
		switch i % 4 {
		case 1:
			say = "  " + thousands(t.Target) + " "
		case 2:
			say = t.Target + "9"
		case 3:
			say = ""
		}
		if before, twice := same[t.Context+t.Question]; twice {
			say = before
		}
		same[t.Context+t.Question], c.answers[t.ID] = say, say
	}
	return c
}

// thousands formats a number with commas.
func thousands(s string) string {
	whole, rest, point := strings.Cut(s, ".")
	if _, err := strconv.Atoi(whole); err != nil || len(whole) < 4 || whole[0] == '-' {
		return s
	}
	whole = whole[:len(whole)-3] + "," + whole[len(whole)-3:]
	if point {
		return whole + "." + rest
	}
	return whole
}

func (c *answerer) Complete(ctx context.Context, p chat.Prompt) (chat.Reply, error) {
	if p.Name != events.RoleGenerator {
		return c.model.Complete(ctx, p)
	}
	for i := range c.tasks {
		last := p.Messages[len(p.Messages)-1].Text
		if strings.Contains(last, c.tasks[i].Context) && strings.Contains(last, c.tasks[i].Question) {
			reply, err := json.Marshal(map[string]any{"reasoning": "", "bullet_ids": []string{}, "final_answer": c.answers[c.tasks[i].ID]})
			return chat.Reply{Text: string(reply), Finish: "stop", Model: "clerk"}, err
		}
	}
	return c.model.Complete(ctx, p)
}

// sameNumber and allTags implement the rules of formats.md a second time.
func sameNumber(answer, target string) bool {
	a, aerr := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(answer), ",", ""), 64)
	b, berr := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(target), ",", ""), 64)
	if aerr == nil && berr == nil {
		return a == b
	}
	return strings.TrimSpace(answer) == strings.TrimSpace(target)
}

func tags(answer, target string) (right, of int) {
	a, b := strings.Split(answer, ","), strings.Split(target, ",")
	for i := range b {
		if i < len(a) && strings.EqualFold(strings.TrimSpace(a[i]), strings.TrimSpace(b[i])) {
			right++
		}
	}
	return right, len(b)
}

// TestPublishedTasks runs all tasks of Formula and FiNER with an answerer whose scores are known, and with the
// simulated model, which fails all of them. The files are stored outside the repository.
func TestPublishedTasks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	for name, samples := range map[string]int{"formula_train_subset_500.jsonl": 500, "formula_val_subset_300.jsonl": 300, "finer_val_first_100.jsonl": 100} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join(cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../../shared/data"), "ace", name))
			if err != nil {
				t.Skipf("no published tasks: %v (DEBRIEF_DATA names their folder)", err)
			}
			evaluator := scoring.ByFormula
			if strings.HasPrefix(name, "finer") {
				evaluator = scoring.ByTags
			}
			read, err := dataset.Read(t.Context(), name, bytes.NewReader(data), dataset.Options{Evaluator: evaluator})
			if err != nil || len(read.Tasks) != samples || read.Invalid > 0 {
				t.Fatalf("%d tasks, %+v", len(read.Tasks), err)
			}
			s := Sets{Train: &Set{Data: report.Data{Set: Train, File: name, Samples: samples}, Tasks: read.Tasks}}
			c := newClerk(read.Tasks)
			h := openWith(t, 8, c)
			out := h.run(Config{Batch: 100}, s, Options{Name: "r"})
			if n := len(out.Report.Losses); n > 0 || len(out.Samples) != samples {
				t.Fatalf("%d losses, %d samples: %+v", n, len(out.Samples), out.Report.Losses)
			}
			right := 0
			for _, sample := range out.Samples {
				task := &read.Tasks[sample.Index]
				want, score := sameNumber(c.answers[task.ID], task.Target), 0.0
				if strings.HasPrefix(name, "finer") {
					got, of := tags(c.answers[task.ID], task.Target)
					want, score = got == of, float64(got)/float64(of)
				} else if want {
					score = 1
				}
				if want {
					right++
				}
				if (sample.Label == events.Success) != want || sample.Score != score {
					t.Errorf("sample %d: %q for %q is %s with %.2f, want %t with %.2f", sample.Index, c.answers[task.ID], task.Target, sample.Label, sample.Score, want, score)
				}
			}
			if train := out.Report.Epochs[0].Train; train.Right != right || right < samples/4 || train.N != samples {
				t.Errorf("training %+v, want %d right", train, right)
			}
			t.Logf("%d of %d right", right, samples)

			if failed := open(t, 8, nil).run(Config{Batch: 256}, s, Options{Name: "r"}).Report; failed.Epochs[0].Train.N != samples || len(failed.Losses) > 0 {
				t.Errorf("the simulated model: %+v, losses %v", failed.Epochs[0].Train, failed.Losses)
			}
		})
	}
}

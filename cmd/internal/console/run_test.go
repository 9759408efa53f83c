package console

import (
	"fmt"
	"html"
	"math/rand/v2"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/playbook"
)

// exampleRun is the report of a run of five epochs over 200 samples in batches of 8, with a validation and a test set.
func exampleRun() *report.Report {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n, step int) report.Score {
		var s report.Score
		for range n {
			won := rng.Float64() < 0.31+0.55*float64(step)/float64(step+90)
			s.Count(events.LabelOf(map[bool]float64{true: 1}[won]), map[bool]float64{true: 1}[won])
		}
		return s.Finish()
	}
	book := func(step, epoch int) report.Book {
		return report.Book{Version: uint64(step/8 + 1), StateHash: fmt.Sprintf("%012xd1c3ab09f7734be2", step*7919), Bullets: step / 50, Tokens: step, Epoch: epoch, Step: step}
	}
	r := report.New()
	r.Mode = "offline"
	r.Settings = []report.Setting{{Name: "epochs", Value: "5"}, {Name: "evaluator", Value: "numeric tolerance=0.005"}}
	r.Data = []report.Data{{Set: "train", File: "train.jsonl", SHA256: "9f2b4c6e", Samples: 200}, {Set: "test", File: "test.jsonl", SHA256: "77ab4c6e", Samples: 300, Unread: 1}}
	r.Operations, r.Rejected = map[string]int{"ADD": 27, "TAG": 412, "MERGE": 3}, map[string]int{"duplicate": 18}
	r.Losses = []report.Loss{{Set: "train", Sample: "inv-0117", Epoch: 2, Reason: "the model's answer could not be read after one more try"}}
	r.Run = report.Run{Name: "invoices", Book: "invoices", Model: "simulated-invoice-desk", From: "invoices@41", Begun: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), Ended: time.Date(2026, 11, 20, 9, 34, 12, 0, time.UTC), Resumed: 2}
	r.Timing = report.Timing{Seconds: 231.4, PerSecond: 4.3, Learning: 180.2, Evaluating: 51.2}
	r.Cost = report.Cost{Generator: report.Usage{Calls: 2600, InputTokens: 2210400, OutputTokens: 182300, Dollars: 0.7701, Seconds: 310.5}, Reflector: report.Usage{Calls: 1000}, Curator: report.Usage{Calls: 125}}
	r.Cost.PerBullet = report.NewBulletCost(r.Cost, r.Timing.Seconds, 27)
	for e := 1; e <= 5; e++ {
		train := report.Score{}
		for step := (e-1)*200 + 8; step <= e*200; step += 8 {
			s := draw(8, step-8)
			train.N, train.Right = train.N+s.N, train.Right+s.Right
			r.Points = append(r.Points, report.Point{Epoch: e, Step: step, Set: "train", Score: s, Book: book(step-8, e)})
		}
		v := draw(100, e*200)
		r.Points = append(r.Points, report.Point{Epoch: e, Step: e * 200, Set: "validation", Score: v, Book: book(e*200, e)})
		r.Epochs = append(r.Epochs, report.Epoch{Epoch: e, Train: train.Finish(), Validation: &v, Book: book(e*200, e)})
	}
	r.Best, r.Final = book(600, 3), book(1000, 5)
	r.Before, r.After = &report.Score{N: 300, Right: 92, Accuracy: 92. / 300, Mean: 0.4}, &report.Score{N: 299, Right: 239, Accuracy: 239. / 299, Mean: 0.85, Lost: 1}
	r.Points = append(r.Points, report.Point{Set: "test", Score: *r.Before}, report.Point{Epoch: 3, Step: 600, Set: "test", Score: *r.After, Book: r.Best})
	r.Paired = &report.Pair{N: 299, Difference: 0.4916, Low: 0.4281, High: 0.5550, Wins: 155, Losses: 8, P: 1e-30}
	r.Models = []report.ModelAnswers{{Model: "simulated-invoice-desk", Answers: 2498, N: 2498, Right: 1711}}
	r.Wrong = report.WrongAnswers{Set: "test", Phase: "after", Of: 299, Wrong: 60, First: []report.WrongAnswer{{
		Sample:  report.Sample{ID: "inv-0905", Question: "What is the total of invoice 4101?", Target: "61.35", Answer: "48.85", Feedback: "the surcharge is missing", Version: 76},
		Bullets: []events.ShownBullet{{ID: "disc-00001", Content: "Round once."}, {ID: "disc-00002", Content: "Gold gets 10 % off."}}, Cited: []playbook.BulletID{"disc-00002"},
	}}}
	r.Bullets = []report.Bullet{{ID: "disc-00002", Section: "discounts", Content: "Gold gets 10 % off.", Status: "probation", Helpful: 80, Shown: 640, Cited: 213, Right: 512}}
	r.Against = &report.Comparison{Book: "support", Version: 41, Bullets: 1234, Same: 7, Alike: 5, OnlyHere: 1, OnlyThere: 1222, Here: []string{"Ask for the order first."}, There: []string{"Apologise twice."}}
	return &r
}

// runFile returns the page of a run as a file, and checks that it contains nothing forbidden.
func runFile(t testing.TB, r *report.Report) string {
	t.Helper()
	var out strings.Builder
	if err := WriteRun(&out, r); err != nil {
		t.Fatal(err)
	}
	css, page, _ := strings.Cut(out.String(), "</style>")
	if strings.Contains(css, "@import") || strings.Contains(css, "url(") {
		t.Error("the style sheet loads a file")
	}
	for _, bad := range []string{"ZgotmplZ", "NaN", "<no value>", "%!", "<script", "<link", "<img", "<iframe", "href=\"/", "<form"} {
		if strings.Contains(page, bad) {
			t.Errorf("got %q on the page", bad)
		}
	}
	return out.String()
}

var markup = regexp.MustCompile(`<[^>]*>`)

// wordsOf returns the text of a page with plain spaces.
func wordsOf(page string) string {
	text := html.UnescapeString(markup.ReplaceAllString(page[strings.Index(page, "<body"):], " "))
	return strings.Join(strings.Fields(text), " ")
}

// The page shows the mean score of an epoch if answers are partly right.
func TestRunFileShowsMeanScore(t *testing.T) {
	t.Parallel()
	r := report.New()
	train := report.Score{N: 10, Right: 6, Accuracy: 0.6, Mean: 0.775}
	r.Epochs = []report.Epoch{{Epoch: 1, Train: train, Validation: &report.Score{N: 4, Right: 1, Accuracy: 0.25, Mean: 0.25}}}
	words := wordsOf(runFile(t, &r))
	if want := "1 60.0 % 31.3 % to 83.2 %, n 10 mean score 0.775 25.0 % 4.6 % to 69.9 %, n 4 0"; !strings.Contains(words, want) {
		t.Errorf("got %q, want the row %q", words, want)
	}
}

func TestRunFile(t *testing.T) {
	t.Parallel()
	r := exampleRun()
	page := runFile(t, r)
	fingerprint, err := r.Fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"The model was simulated.", "30.7 % → 79.9 %", "+49.2 points (95 % interval +42.8 to +55.5) on the 299 samples", "155 went from wrong to right and 8 from right to wrong",
		"Learning curve", "test 79.9 %, 239 of 299 outcomes, 95 % interval 75.0 % to 84.1 %, sample 600", "epoch 5", "3 best",
		"60 of 299 answers of the test set are wrong", "Answer 48.85 Target 61.35 Feedback the surcharge is missing Sample inv-0905", "disc-00002 cited", "simulated-invoice-desk 2 498 2 498 1 711",
		"MERGE 3 Replaces several bullets by one", "duplicate 18 rejected", r.Best.StateHash, "disc-00002 probation discounts 80 0 640 213 512",
		"Version 41 of this playbook has 1 234 bullets. The best playbook of the run has 7 with the same words and 5 nearly the same.", "Only in support : 1 222", "The first 1 of 1 222",
		"train.jsonl 9f2b4c6e 200 0", "evaluator numeric tolerance=0.005", "inv-0117", "Generator 2 600 2 210 400 182 300 $0.77", "Total 3 725", "For each of 27 added bullets", "Resumed 2", fingerprint,
	} {
		if !strings.Contains(wordsOf(page), want) {
			t.Errorf("want %q in %.5000s", want, wordsOf(page))
		}
	}
	if !strings.Contains(page, "Content-Security-Policy") || !strings.Contains(page, "prefers-color-scheme: dark") {
		t.Error("want a policy and the colours of the console on the page")
	}
}

func TestRunFileOfMinimalRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*report.Report)
		want   string
		not    string
	}{
		{"nothing at all", func(r *report.Report) { *r = report.New() }, "0 bullets in the final playbook", "Learning curve"},
		{"no test set", func(r *report.Report) { r.Before, r.After, r.Paired = nil, nil, nil }, "this figure is too high", "→ 79.9"},
		{"training alone", func(r *report.Report) {
			r.Before, r.After, r.Paired = nil, nil, nil
			r.Points = slices.DeleteFunc(r.Points, func(p report.Point) bool { return p.Set != "train" })
		}, "answered right in epoch 1 and in epoch 5", "was chosen on"},
		{"one pass", func(r *report.Report) {
			r.Before, r.After, r.Paired, r.Epochs, r.Points = nil, nil, nil, r.Epochs[:1], nil
			for i := range 10 {
				r.Points = append(r.Points, report.Point{Step: i + 1, Set: "train", Score: report.Score{N: 4, Right: i / 3}})
			}
		}, "Of the first fifth 0.0 %, of the last 62.5 %.", "too high"},
		{"a test set without a before", func(r *report.Report) { r.Before, r.Paired = nil, nil }, "the effect of the playbook is unknown", "→ 79.9"},
		{"no sample judged both times", func(r *report.Report) { r.Paired = &report.Pair{} }, "No sample has a label both times", "McNemar"},
		{"no difference", func(r *report.Report) { r.Paired.Low = -0.01 }, "The interval contains 0", "does harm"},
		{"harm", func(r *report.Report) {
			*r.Paired = report.Pair{N: 9, Difference: -0.5, Low: -0.8, High: -0.1, P: 0.02}
		}, "The learned playbook does harm", "contains 0"},
		{"nothing learned", func(r *report.Report) { r.Operations = nil }, "Best version nothing learned", "3 best"},
		{"a real model", func(r *report.Report) { r.Run.Model = "gpt-5" }, "Learning curve", "was simulated"},
		{"many of everything", func(r *report.Report) {
			r.Epochs, r.Losses, r.Points = slices.Repeat(r.Epochs, 100), slices.Repeat(r.Losses, 300), slices.Repeat(r.Points, 50)
			for i := range 500 {
				r.Bullets = append(r.Bullets, report.Bullet{ID: "b-1", Content: "Do.", Shown: i})
			}
		}, "The first 200 of 501; report.json has all.", "epoch 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := exampleRun()
			tt.change(r)
			words := wordsOf(runFile(t, r))
			if !strings.Contains(words, tt.want) || strings.Contains(words, tt.not) {
				t.Errorf("want %q and not %q in %s", tt.want, tt.not, words)
			}
		})
	}
}

// poison writes a text to every string.
func poison(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			poison(v.Elem(), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				poison(v.Field(i), text)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			poison(v.Index(i), text)
		}
	case reflect.Map:
		v.SetMapIndex(reflect.ValueOf(text), reflect.ValueOf(1))
	case reflect.String:
		v.SetString(v.String() + text)
	}
}

func TestRunFileEscapesTexts(t *testing.T) {
	t.Parallel()
	shapeWith := func(text string) string {
		r := exampleRun()
		points := slices.Clone(r.Points)
		poison(reflect.ValueOf(r), text)
		copy(r.Points, points) // the curve needs the names of sets
		return strings.Join(markup.FindAllString(regexp.MustCompile(`"[^"]*"`).ReplaceAllString(runFile(t, r), ""), -1), "")
	}
	if got, want := shapeWith(attack), shapeWith("x"); got != want {
		t.Errorf("an attack changed the page: got %s, want %s", got, want)
	}
}

func TestPoolingCountsEveryOutcomeOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var all []stepOutcomes
		known, right := 0, 0
		ofGroup := map[int]int{}
		for i := range rapid.IntRange(1, 300).Draw(t, "measurements") {
			m := stepOutcomes{step: i, n: rapid.IntRange(1, 40).Draw(t, "n"), group: i / 50}
			m.right = rapid.IntRange(0, m.n).Draw(t, "right")
			known, right, all = known+m.n, right+m.right, append(all, m)
			ofGroup[m.group] += m.n
		}
		few := map[int]int{}
		for _, m := range accuracyMarks("series", all, 20) {
			n, of := 0, 0
			if _, err := fmt.Sscanf(strings.ReplaceAll(m.Title[strings.Index(m.Title, ", ")+2:], "\u202f", ""), "%d of %d", &n, &of); err != nil {
				t.Fatal(err)
			}
			if known, right = known-of, right-n; of < 20 {
				few[m.Step/50]++
			}
			if m.Low > m.Value+1e-9 || m.High < m.Value-1e-9 {
				t.Fatalf("the interval of mark %+v does not contain it", m)
			}
		}
		if known != 0 || right != 0 {
			t.Fatalf("%d outcomes and %d successes are lost", known, right)
		}
		for group, n := range few {
			if n > 1 {
				t.Fatalf("group %d has %d marks with few outcomes, want at most the last one", group, n)
			}
		}
	})
}

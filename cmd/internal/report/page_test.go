package report

import (
	"fmt"
	"html"
	"math"
	"os/exec"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// render returns the page and checks that it contains nothing forbidden.
func render(t testing.TB, r *Report) string {
	t.Helper()
	var out strings.Builder
	if err := r.page(&out); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, bad := range []string{"ZgotmplZ", "NaN", "Inf", "<no value>", "%!", "<script", "<link", "<img", "<iframe", "@import", "url("} {
		if strings.Contains(page, bad) {
			t.Errorf("got %q on the page", bad)
		}
	}
	if svgs, ends := strings.Count(page, "<svg"), strings.Count(page, "</svg>"); svgs != ends {
		t.Errorf("got %d pictures and %d ends", svgs, ends)
	}
	return page
}

var tags = regexp.MustCompile(`<[^>]*>`)

// words returns the text of the page with plain spaces.
func words(page string) string {
	text := html.UnescapeString(tags.ReplaceAllString(page[strings.Index(page, "<body"):], " "))
	return strings.Join(strings.Fields(text), " ")
}

func has(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("want %q in %.3000s", w, text)
		}
	}
}

func TestPage(t *testing.T) {
	t.Parallel()
	r := example()
	page := render(t, r)
	fingerprint, err := r.fingerprint()
	if err != nil {
		t.Fatal(err)
	}
	has(t, words(page),
		"The model was simulated.", "30.7 % → 79.9 %", "+49.2 points (95 % interval +42.8 to +55.5) on the 299 samples with a label both times: 155 went from wrong to right and 8 from right to wrong (p < 0.0001, two-sided).",
		"epoch 5", "training samples", "Epoch Training Validation", "95 % interval",
		"60 of 299 answers are wrong on the test set, with the best playbook. These are the first 25", "Answer 48.85 Target 61.35 Feedback the surcharge is missing Sample inv-0905 Model simulated-invoice-desk Shown 1 bullet of version 126",
		"disc-00002 cited", "Answers by model", "simulated-invoice-desk 2 498 2 498 1 711", "MERGE Replaces several bullets by one", "Reflector Analyses each training answer", r.Best.StateHash, "Common Mistakes", string(r.Bullets[0].ID),
		"TAG 412", "duplicate 18", r.Data[0].SHA256, "validate-every 100", "inv-0117", "Generator 2 600 2 210 400 182 300 $0.7701", "Total 3 725",
		"differs from run to run", `debrief train \ --validation=invoices/validation.jsonl`, "invoices/train.jsonl", fingerprint, "resumed 2 times", "A real model may give other results.",
	)
	for _, want := range []string{`role="img"`, "<caption>", "prefers-color-scheme: dark", "@media print", `lang="en"`, "Content-Security-Policy"} {
		if !strings.Contains(page, want) {
			t.Errorf("want %q on the page", want)
		}
	}
	if got := strings.Count(page, "<title>"); got < len(r.Points) {
		t.Errorf("got %d titles, want one a mark of %d points", got, len(r.Points))
	}
	r.Run.Model, r.Models, r.Wrong = "gpt-5", nil, WrongAnswers{}
	if text := words(render(t, r)); strings.Contains(text, "simulated") || !strings.Contains(text, "A model that gives different answers") {
		t.Error("a real model is called a simulated one")
	}
}

func TestPageOfMinimalRuns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Report)
		want   []string
		not    []string
	}{
		{"nothing at all", func(r *Report) { *r = Report{} }, []string{"0 bullets in the final playbook", "The playbook is empty", "No operations."}, []string{"Size of the playbook", "Losses"}},
		{"no validation", func(r *Report) {
			r.Points = slices.DeleteFunc(r.Points, func(p Point) bool { return p.Set == "validation" })
			for i := range r.Epochs {
				r.Epochs[i].Validation = nil
			}
		}, []string{"Epoch Training Bullets"}, []string{"it was chosen there"}},
		{"no test set", func(r *Report) { r.Before, r.After, r.Paired = nil, nil, nil }, []string{"of the validation set answered right, after 0 training samples and with the best playbook", "this figure is too high"}, []string{"→ 79.9"}},
		{"training alone", func(r *Report) {
			r.Before, r.After, r.Paired, r.Best = nil, nil, nil, Book{}
			r.Points = slices.DeleteFunc(r.Points, func(p Point) bool { return p.Set != "train" })
		}, []string{"answered right in epoch 1 and in epoch 5"}, []string{"best playbook, which"}},
		{"one pass", func(r *Report) {
			r.Before, r.After, r.Paired, r.Epochs = nil, nil, nil, r.Epochs[:1]
			r.Points = nil
			for i := range 10 {
				r.Points = append(r.Points, Point{Step: i + 1, Set: "train", Score: Score{N: 4, Right: i / 3}})
			}
		}, []string{"each before learning from it", "Of the first fifth 0.0 %, of the last 62.5 %."}, []string{"too high"}},
		{"one point", func(r *Report) {
			*r = Report{Points: []Point{{Set: "train", Step: 1, Score: Score{N: 1, Right: 1, Accuracy: 1}}}}
		}, []string{"training 100.0 %, 1 of 1, 95 % interval 20.7 % to 100.0 %, after 1 sample"}, []string{"How the playbook grew"}},
		{"a test set without a before", func(r *Report) { r.Before, r.Paired = nil, nil }, []string{"79.9 % of the test set answered right with the best playbook"}, []string{"→ 79.9"}},
		{"no sample judged both times", func(r *Report) { r.Paired = &Pair{} }, []string{"no sample has a label both times"}, []string{"two-sided"}},
		{"no wrong answer", func(r *Report) { r.Wrong = WrongAnswers{Set: "test", Phase: "after", Of: 299} }, []string{"No answer is wrong on the test set, with the best playbook: 299 answers."}, []string{"are wrong"}},
		{"no difference", func(r *Report) { r.Paired.Low = -0.01 }, []string{"The interval contains 0"}, nil},
		{"harm", func(r *Report) { *r.Paired = Pair{N: 9, Difference: -0.5, Low: -0.8, High: -0.1, P: 0.02} }, []string{"The learned playbook does harm", "−50.0 points", "p = 0.02"}, []string{"contains 0"}},
		{"numbers that are none", func(r *Report) {
			nan := math.NaN()
			r.Points[4].Score.Accuracy, r.Points[0].Score.Accuracy, r.After.Accuracy = nan, math.Inf(1), nan
			*r.Paired, r.Timing, r.Cost.Curator.Dollars = Pair{N: 3, Difference: nan, Low: nan, High: nan, P: nan}, Timing{nan, nan, nan, nan, nil}, nan
		}, []string{"The interval contains 0", "p = 1"}, nil},
		{"executions", func(r *Report) { *r = Report{Mode: "executions", Final: Book{Bullets: 12}} }, []string{"a run over recorded executions", "12 bullets in the final playbook", "No sample has a label"}, nil},
		{"10,000 bullets", func(r *Report) {
			r.Bullets = nil
			for i := range 10_000 {
				r.Bullets = append(r.Bullets, Bullet{ID: playbook.BulletID(fmt.Sprintf("b-%05d", i)), Content: "Do.", Shown: i})
			}
		}, []string{"10 000 bullets at the end; the list has the 200 that were shown most, and report.json has the other 9 800", "b-09999", "b-09800", "Without a section"}, []string{"b-09799"}},
		{"many of everything", func(r *Report) {
			p := r.Points[1]
			r.Points = nil
			for i := range 5000 {
				p.Step, p.Set = i, []string{"train", "validation"}[i%2]
				r.Points = append(r.Points, p)
			}
			r.Epochs = slices.Repeat(r.Epochs, 100)
			r.Losses = slices.Repeat(r.Losses, 300)
			for i := range 500 {
				r.Rejected[fmt.Sprintf("reason %d", i)] = 1
			}
		}, []string{"The first 200 of 500 epochs", "The first 100 of 300", "453 others 453", "Each line shows at most 400 measurements", "the mean of neighbouring batches"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := example()
			tt.change(r)
			page := render(t, r)
			has(t, words(page), tt.want...)
			for _, not := range tt.not {
				if strings.Contains(words(page), not) {
					t.Errorf("got %q", not)
				}
			}
			if len(page) > 2<<20 {
				t.Errorf("got a page of %d bytes", len(page))
			}
		})
	}
}

// attack is used in every text of a hostile report.
const attack = `"'><script>alert(1)</script></svg></title></style><img src=http://canary.invalid/x onerror=alert(2)>javascript:alert(3){{.}}` + "\u202e\x00\xff"

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

// poisoned is the example with a text in every string except the names of sets, which the curve needs.
func poisoned(text string) *Report {
	r := example()
	points := slices.Clone(r.Points)
	poison(reflect.ValueOf(r), text)
	for i := range points {
		r.Points[i].Set = points[i].Set
	}
	return r
}

func TestPageEscapesTexts(t *testing.T) {
	t.Parallel()
	page := render(t, poisoned(attack))
	if strings.Contains(page, "onerror=alert(2)>") || strings.Contains(page, "</svg></title>") {
		t.Error("an attack is on the page as it was written")
	}
	if got, want := shape(page), shape(render(t, poisoned("x"))); got != want {
		t.Errorf("an attack changed the page: got %s, want %s", got, want)
	}
}

// shape returns a page without its texts and attributes.
func shape(page string) string {
	var out strings.Builder
	for _, tag := range tags.FindAllString(page, -1) {
		name, _, _ := strings.Cut(strings.Trim(tag, "<>"), " ")
		out.WriteString("<" + name + ">")
	}
	return out.String()
}

func TestCommand(t *testing.T) {
	t.Parallel()
	if got, want := strings.Split(example().command(), " \\\n  "), []string{
		"debrief train", "--validation=invoices/validation.jsonl", "--test=invoices/test.jsonl", "--epochs=5", "--batch=8", "--rounds=1",
		"--validate-every=100", "--order=shuffled", "--seed=7", "'--evaluator=numeric tolerance=0.005'", "invoices/train.jsonl",
	}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCommandInShell(t *testing.T) {
	t.Parallel()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh here")
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~\n\tä]{1,30}`)
		a, b := value.Draw(t, "flag"), value.Draw(t, "argument")
		r := &Report{Settings: []Setting{{"DATASET", b}, {"evaluator", a}, {"unset", ""}}}
		out, err := exec.Command(sh, "-c", `debrief() { printf '%s\0' "$@"; }; `+r.command()).Output()
		if want := "train\x00--evaluator=" + a + "\x00" + b + "\x00"; err != nil || string(out) != want {
			t.Fatalf("%s: got %q (%v), want %q", r.command(), out, err, want)
		}
	})
}

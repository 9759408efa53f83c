package report

import (
	"fmt"
	"math/rand/v2"
	"time"

	"debrief/events"
	"debrief/playbook"
)

// example is a run of five epochs over 200 samples in batches, with a validation and a test set.
func example() *Report {
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int, share float64) Score {
		right := 0
		for range n {
			if rng.Float64() < share {
				right++
			}
		}
		a := float64(right) / float64(n)
		return Score{N: n, Right: right, Accuracy: a, Mean: a}
	}
	book := func(step, epoch int) Book {
		b := 23 - 23*200/(200+step*2)
		return Book{Version: uint64(step/8 + 1), StateHash: fmt.Sprintf("%012xd1c3ab09f7734be2", step*7919), Bullets: b, Tokens: b * 31, Epoch: epoch, Step: step}
	}
	skill := func(step int) float64 { return 0.31 + 0.55*float64(step)/float64(step+90) }
	r := &Report{
		Format: Format, Mode: "offline",
		Settings: []Setting{
			{"DATASET", "invoices/train.jsonl"},
			{"validation", "invoices/validation.jsonl"},
			{"test", "invoices/test.jsonl"},
			{"epochs", "5"},
			{"batch", "8"},
			{"rounds", "1"},
			{"validate-every", "100"},
			{"order", "shuffled"},
			{"seed", "7"},
			{"evaluator", "numeric tolerance=0.005"},
			{"output", ""},
		},
		Data: []Data{
			{"train", "train.jsonl", "9f2b4c6e1d0a8f7766554433221100ffeeddccbbaa99887766554433221100aa", 200, 0},
			{"validation", "validation.jsonl", "1c2b4c6e1d0a8f7766554433221100ffeeddccbbaa99887766554433221100bb", 100, 0},
			{"test", "test.jsonl", "77ab4c6e1d0a8f7766554433221100ffeeddccbbaa99887766554433221100cc", 300, 1},
		},
		Operations: map[string]int{"ADD": 27, "UPDATE": 9, "TAG": 412, "MERGE": 3, "REMOVE": 1},
		Rejected:   map[string]int{"duplicate": 18, "unknown-bullet": 2, "token-budget": 4},
		Losses:     []Loss{{"train", "inv-0117", 2, "the model's answer could not be read after one more try"}},
		Run: Run{
			Name: "invoices-2026-11", Book: "invoices-2026-11", Model: "simulated-invoice-desk", From: "invoices@41",
			Begun: time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC), Ended: time.Date(2026, 11, 20, 9, 34, 12, 0, time.UTC), Resumed: 2, Debrief: "v0.4.0",
		},
		Timing: Timing{Seconds: 231.4, PerSecond: 4.3, Learning: 180.2, Evaluating: 51.2, Epochs: []EpochTime{
			{0, RoleTime{10.1, 41.5}, RoleTime{}, RoleTime{}},
			{1, RoleTime{24.2, 180.25}, RoleTime{30, 201}, RoleTime{11.5, 0}},
		}},
		Cost: Cost{Generator: Usage{2600, 2210400, 182300, 0.7701, 310.5}, Reflector: Usage{1000, 1450200, 240110, 0.9, 402}, Curator: Usage{125, 310500, 41000, 0.19, 61.2}},
	}
	r.Points = append(r.Points, Point{0, 0, "validation", draw(100, skill(0)), book(0, 0)})
	for e := 1; e <= 5; e++ {
		train := Score{}
		for i := 0; i < 200; i += 8 {
			step := (e-1)*200 + i + 8
			s := draw(8, skill(step-8))
			train.N, train.Right = train.N+s.N, train.Right+s.Right
			r.Points = append(r.Points, Point{e, step, "train", s, book(step-8, e)})
			if step%100 < 8 && step%200 != 0 {
				r.Points = append(r.Points, Point{e, step, "validation", draw(100, skill(step)), book(step, e)})
			}
		}
		v := draw(100, skill(e*200))
		r.Points = append(r.Points, Point{e, e * 200, "validation", v, book(e*200, e)})
		train.Accuracy = float64(train.Right) / float64(train.N)
		r.Epochs = append(r.Epochs, Epoch{e, train, &v, book(e*200, e)})
	}
	r.Best, r.Final = book(0, 0), book(1000, 5)
	best := 0
	for _, p := range r.Points {
		if p.Set == "validation" && p.Score.Right > best {
			r.Best, best = p.Book, p.Score.Right
		}
	}
	r.Before, r.After = &Score{N: 300, Right: 92, Accuracy: 92. / 300, Mean: 92. / 300}, &Score{N: 299, Right: 239, Accuracy: 239. / 299, Mean: 239. / 299, Lost: 1}
	r.Paired = &Pair{N: 299, Difference: 0.4916, Low: 0.4281, High: 0.5550, Wins: 155, Losses: 8, P: 1e-30}
	r.Models = []ModelAnswers{{"simulated-invoice-desk", 2498, 2498, 1711}}
	r.Wrong = WrongAnswers{Set: "test", Phase: "after", Of: 299, Wrong: 60}
	for i := range MaxWrong {
		w := WrongAnswer{Bullets: []events.ShownBullet{}, Cited: []playbook.BulletID{}, Sample: Sample{
			Set: "test", Phase: "after", Epoch: 5, Step: 1000, Index: i * 5, ID: fmt.Sprintf("inv-%04d", 900+i*5), Label: events.Failure, Rounds: 1, Version: r.Best.Version, Model: "simulated-invoice-desk",
			Question: fmt.Sprintf("Invoice %d: 12 pieces at 4.95, tier Gold, delivery to an island of zone %d. What is the total?", 4100+i, i%4+1),
			Target:   fmt.Sprintf("%d.35", 60+i), Answer: fmt.Sprintf("%d.85", 47+i), Feedback: "the surcharge is missing",
		}}
		for j := range i % 4 {
			w.Bullets = append(w.Bullets, events.ShownBullet{ID: playbook.BulletID(fmt.Sprintf("disc-%05d", j+1)), Content: fmt.Sprintf("An order of %d pieces or more of one article has 2 %% off that line alone.", j+3)})
		}
		if i%4 > 1 {
			w.Cited = []playbook.BulletID{"disc-00002"}
		}
		r.Wrong.First = append(r.Wrong.First, w)
	}
	rules := []struct{ section, text string }{
		{"discounts", "Customers of tier Gold get %d %% off the net sum, before any surcharge; Silver gets half of it, and others nothing."},
		{"discounts", "An order of %d pieces or more of one article has 2 %% off that line alone."},
		{"taxes", "Books and printed matter of region %d are taxed with the reduced rate; when a parcel holds both, each line has its own rate."},
		{"rounding", "Round once, at the end, to whole cents, half up.\nLine sums keep %d decimals."},
		{"surcharges", "Deliveries to islands of zone %d cost 12.50 more, whatever the weight."},
		{"common_mistakes", "Do not take discount %d from the surcharge: it is added afterwards."},
	}
	for i := range r.Final.Bullets {
		rule := rules[i%len(rules)]
		shown := 40 + rng.IntN(600)
		r.Bullets = append(r.Bullets, Bullet{
			ID: playbook.BulletID(fmt.Sprintf("%s-%05d", rule.section[:4], i+1)), Section: rule.section, Content: fmt.Sprintf(rule.text, i+2), Status: []string{"active", "active", "active", "probation"}[i%4],
			Helpful: rng.IntN(80), Harmful: rng.IntN(5), Neutral: rng.IntN(9), Shown: shown, Cited: shown / 3, Right: shown * 4 / 5,
		})
	}
	return r
}

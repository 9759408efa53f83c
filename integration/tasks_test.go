package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"debrief/events"
	"debrief/playbook"
)

// The rules of the test's invoices: the surcharge of a delivery in cents, and the tax of a region in percent. The simulated
// model knows the forms of these rules, but not the numbers.
var (
	deliveries = map[string]int{"express": 430, "courier": 745}
	taxes      = map[string]int{"North": 7, "South": 11, "East": 13, "West": 17}
)

// invoices returns n tasks. Each uses two rules, so that each answer gives an effect: a right answer cites the bullets that it
// used, and the feedback on a wrong one names the wrong step.
func invoices(rng *rand.Rand, n int) []*events.Task {
	pick := func(m []string) string { return m[rng.IntN(len(m))] }
	tasks := make([]*events.Task, n)
	for i := range tasks {
		delivery, region := pick([]string{"express", "courier"}), pick([]string{"North", "South", "East", "West"})
		price, quantity := 5*(20+rng.IntN(180)), 20+rng.IntN(70)
		goods := price * quantity
		tax := ((goods+deliveries[delivery])*taxes[region] + 50) / 100
		type step struct {
			Name   string `json:"name"`
			Amount string `json:"amount"`
		}
		target, err := json.Marshal(map[string]any{
			"answer": money(goods + deliveries[delivery] + tax),
			"steps":  []step{{"goods", money(goods)}, {"delivery surcharge", money(deliveries[delivery])}, {"region tax", money(tax)}},
		})
		if err != nil {
			panic(err) // strings encode
		}
		tasks[i] = &events.Task{
			ID: fmt.Sprintf("invoice-%04d", i), Evaluator: "steps", Target: string(target),
			Question: fmt.Sprintf("Invoice %05d, Canal Tea Room\n  %d x clay pots at %s\ndelivery: %s\nregion: %s\n\nWhat is the amount due?",
				10000+i, quantity, money(price), delivery, region),
		}
		tasks[i].Book = desk
	}
	return tasks
}

const desk = playbook.Book("desk")

func money(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }

package similar_test

import (
	"fmt"

	"debrief/playbook/similar"
)

// A caller merges texts that are similar and without a difference.
func Example() {
	var x similar.Index
	texts := map[string]string{
		"calc-00001": "For customers in region North the tax is 7 % of the amount, rounded once at the end.",
		"calc-00002": "Orders above 1,000 CHF need a signature.",
	}
	for id, text := range texts {
		x.Put(id, text)
	}
	for _, text := range []string{
		"For a customer in region North, the tax is 7% of the amount: rounded once, at the end.",
		"For customers in region North the tax is 11 % of the amount, rounded once at the end.",
		"Ship on Fridays.",
	} {
		m, ok := x.Nearest(text, 0.7, nil)
		if !ok {
			fmt.Println("is new")
			continue
		}
		fmt.Printf("is like %s to %.2f; forbidden: %q\n", m.ID, m.Similarity, similar.Difference(texts[m.ID], text).Reason)
	}
	// Output:
	// is like calc-00001 to 0.88; forbidden: ""
	// is like calc-00001 to 0.91; forbidden: "numbers differ: 7 % and 11 %"
	// is new
}

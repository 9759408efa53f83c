package recall_test

import (
	"fmt"

	"debrief/playbook/recall"
)

// Without an embedding model, texts and questions are hashed.
func Example() {
	x := recall.New(256 << 20)
	for key, text := range map[string]string{
		"17-9f3c": "The billing_gateway crashed on an empty price list; fixed by checking its length.",
		"18-02ab": "Orders above 1,000 CHF need a signature.",
		"19-77e0": "Anna Keller prefers a window seat.",
	} {
		err := x.Put(recall.Item{
			Key: key, Groups: []string{"session-1"}, Text: text,
			Vector: recall.HashedVector(text, nil), Model: recall.HashedModel,
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	const question = "Why is the biling gateway crashing?"
	r, err := x.Search(recall.Query{
		Text: question, Vector: recall.HashedVector(question, nil), Model: recall.HashedModel,
		Group: "session-1", MinSimilarity: 0.3,
	})
	if err != nil {
		fmt.Println(err)
	}
	for _, h := range r.Hits {
		fmt.Printf("%s, similarity %.2f\n", h.Key, h.Similarity)
	}
	// Output:
	// 17-9f3c, similarity 0.69
}

// The bullets of a playbook are ranked by relevance to a task.
func ExampleWordIndex() {
	var w recall.WordIndex
	w.Put("cf-00016", "For currency CHF the currency fee is 8 % of the amount so far.")
	w.Put("ds-00007", "For delivery courier the delivery surcharge is 2.50.")
	w.Put("tx-00002", "Round the amount once, at the end.")
	for _, m := range w.Top("Which fees are there in another currency, on which amounts?", 10) {
		fmt.Printf("%s %.2f\n", m.Key, m.Score)
	}
	// Output:
	// cf-00016 0.47
	// tx-00002 0.10
}

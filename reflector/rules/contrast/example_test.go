package contrast_test

import (
	"fmt"

	"debrief/reflector/rules/contrast"
)

func Example() {
	names := []string{"read the policy first", "ask for confirmation"}
	data := contrast.New(contrast.Config{})
	for task := range 10 {
		for run := range 5 {
			r := contrast.Run{Task: fmt.Sprint(task), Agent: "gpt", Could: []contrast.ID{0, 1}}
			if run < 3 {
				r.Did = append(r.Did, 0)
			}
			if (run+task)%2 == 0 {
				r.Did = append(r.Did, 1)
			}
			r.Success = run < 3 && (run+task)%7 > 0
			data.Add(r)
		}
	}
	result := data.Result()
	for _, c := range result.Shown {
		fmt.Printf("%s: %d of %d successful, without it %d of %d (p = %.1g)\n", names[c.IDs[0]],
			c.DidSuccess, c.DidSuccess+c.DidFailure, c.DidNotSuccess, c.DidNotSuccess+c.DidNotFailure, c.P)
	}
	fmt.Printf("%d candidates tested, %d shown; with shuffled outcomes %.2f on average\n", result.Tested, len(result.Shown), result.ShuffledMean)
	// Output:
	// read the policy first: 26 of 30 successful, without it 0 of 20 (p = 2e-08)
	// 2 candidates tested, 1 shown; with shuffled outcomes 0.04 on average
}

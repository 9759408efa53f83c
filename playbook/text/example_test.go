package text_test

import (
	"fmt"

	"debrief/playbook/text"
)

func Example() {
	const said = "The getUser call failed:\n  `no such user`"
	fmt.Println(text.Stem("failed"), text.Stem("failing"))
	fmt.Println(text.Clip(said, 11))
	fmt.Println(text.Line(said, 30))
	// Output:
	// fail fail
	// The getUser…
	// The getUser call failed: `no s…
}

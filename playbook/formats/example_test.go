package formats_test

import (
	"fmt"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// A playbook is imported, changed and exported.
func Example() {
	const file = `Rules of the desk. Ask Kim before you add one.

## CHECKS
[chk-00001] helpful=4 harmful=0 :: Compare the total with the sum of the lines.

## TAX
[tax-00002] helpful=3 harmful=1 :: Discounts come off before the tax.
[tax-00002] helpful=0 harmful=0 :: Round once, at the end.
`
	doc, err := formats.Read([]byte(file), "", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(doc.Format, len(doc.Bullets), doc.Notes)

	doc.Bullets[0].Helpful++
	all := append(doc.Bullets, &playbook.Bullet{
		ID: "chk-00003", Section: "checks", Content: "Look for a credit note.", Pinned: true,
	})
	out, losses, err := formats.Write(formats.ACE, "desk", all)
	fmt.Printf("%s%v %v\n", out, losses, err)
	// Output:
	// ace 3 [lines outside bullets: 1; ignored line 8, tax-00002: duplicate id tax-00002; renamed to tax-00002-2]
	// ## CHECKS
	// [chk-00001] helpful=5 harmful=0 :: Compare the total with the sum of the lines.
	// [chk-00003] helpful=0 harmful=0 :: Look for a credit note.
	//
	// ## TAX
	// [tax-00002] helpful=3 harmful=1 :: Discounts come off before the tax.
	// [tax-00002-2] helpful=0 harmful=0 :: Round once, at the end.
	// [{chk-00003 pinned ace cannot store pins}] <nil>
}

func ExampleDetect() {
	for _, file := range []string{
		"## A\n[a-00001] helpful=0 harmful=0 :: One.",
		"## A\n[a-00001] One.",
		`{"skills": {}}`,
		`{"skills": {"a": `,
		"Dear all,",
	} {
		fmt.Println(formats.Detect([]byte(file)))
	}
	// Output:
	// ace <nil>
	// ace <nil>
	// kayba <nil>
	//  not a playbook file: the JSON is cut off in line 1: unexpected end of JSON input
	//  no bullet found: the text has no line like "[id] helpful=0 harmful=0 :: content" or "[slug-00001] content"
}

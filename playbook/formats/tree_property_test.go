package formats_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook/formats"
)

// anyValue draws any JSON value, with valid and invalid contents and numbers.
func anyValue() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.SampledFrom([]string{
			"null", "true", "0", "7", "-1", "2.0", "1e3", "99999999999999999999", `""`, `"x"`, `"active"`, `"invalid"`, `"Tax & Duty"`, "[]", "{}",
			`[0.1,-2]`, `{"a":{"b":[1]}}`, `"2026-01-02T03:04:05.000006+00:00"`, `"2026-01-02T03:04:05"`, `"2026-01-02 03:04:05+0530"`, `"now"`, `"caf\u00e9"`,
		}),
		rapid.Map(content(), func(s string) string {
			raw, _ := json.Marshal(s)
			return string(raw)
		}),
	)
}

// anyItem draws an item of a map, most often with a content.
func anyItem(t *rapid.T, names []string) string {
	if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
		return anyValue().Draw(t, "item")
	}
	members := []string{`"content":"one of them"`}
	for _, name := range names {
		if rapid.Bool().Draw(t, name) {
			members = append(members, fmt.Sprintf("%q:%s", name, anyValue().Draw(t, "value")))
		}
	}
	return "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), ",") + "}"
}

func anyTree(t *rapid.T) string {
	tree := rapid.SampledFrom([]struct {
		top   string
		names []string
	}{
		{"skills", []string{"id", "section", "content", "helpful", "harmful", "neutral", "status", "created_at", "updated_at", "embedding", "sources", "mine"}},
		{"bullets", []string{"section", "helpful", "created_at"}},
		{"strategies", []string{"id", "category", "helpful_count", "neutral_count", "created_at", "last_used", "mine"}},
	}).Draw(t, "tree")
	keys := rapid.SampledFrom([]string{"a-1", "a-2", "b-7", "x", "", "a]b"})
	var items, lists []string
	for range rapid.IntRange(1, 5).Draw(t, "items") {
		items = append(items, fmt.Sprintf("%q:%s", keys.Draw(t, "key"), anyItem(t, tree.names)))
	}
	for _, section := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "X", "Tax & Duty", "tax_and_duty", "misc", ""}), 0, 4, rapid.ID).Draw(t, "sections") {
		list := anyValue().Draw(t, "list")
		if rapid.Bool().Draw(t, "ids") {
			raw, _ := json.Marshal(rapid.SliceOfN(keys, 0, 4).Draw(t, "list"))
			list = string(raw)
		}
		lists = append(lists, fmt.Sprintf("%q:%s", section, list))
	}
	members := []string{fmt.Sprintf("%q:{%s}", tree.top, strings.Join(items, ","))}
	if rapid.Bool().Draw(t, "has sections") {
		members = append(members, `"sections":{`+strings.Join(lists, ",")+"}")
	}
	if rapid.Bool().Draw(t, "has next_id") {
		members = append(members, `"next_id":`+anyValue().Draw(t, "next_id"))
	}
	if rapid.Bool().Draw(t, "has more") {
		members = append(members, `"similarity_decisions":`+anyValue().Draw(t, "more"))
	}
	return "{" + strings.Join(rapid.Permutation(members).Draw(t, "order"), ",") + "}"
}

// The bullets of a JSON file are written to every format and read back.
func TestImportedTreesAreReadBack(t *testing.T) {
	t.Parallel()
	readable, _ := formats.Formats()
	rapid.Check(t, func(t *rapid.T) {
		text := anyTree(t)
		doc, err := formats.Read([]byte(text), "", nil)
		if err != nil {
			if !errors.Is(err, formats.ErrNoBullet) {
				t.Fatalf("%v of %s", err, text)
			}
			return
		}
		checkReadBack(t, rapid.SampledFrom(readable).Draw(t, "written"), doc.Bullets)
	})
}

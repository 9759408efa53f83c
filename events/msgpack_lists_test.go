package events

import (
	"bytes"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// The same structs without a function in msgpack_lists.go.
type (
	reflectedBullet ShownBullet
	reflectedPart   Part
)

// TestListsAsByReflection checks, for random values, that the functions for lists write and read the same bytes as the
// library does by reflection.
func TestListsAsByReflection(t *testing.T) {
	t.Parallel()
	type lists struct {
		Shown []ShownBullet `msgpack:"s"`
		Parts []Part        `msgpack:"p"`
	}
	type reflected struct {
		Shown []reflectedBullet `msgpack:"s"`
		Parts []reflectedPart   `msgpack:"p"`
	}
	text := rapid.SampledFrom([]string{"", "a", "税", string(bytes.Repeat([]byte("x"), 40)), string(bytes.Repeat([]byte("y"), 300))})
	number := rapid.SampledFrom([]int{0, 1, 200, 70_000, -1, -200, 1 << 40})
	rapid.Check(t, func(t *rapid.T) {
		var own lists
		var want reflected
		for range rapid.IntRange(0, 20).Draw(t, "bullets") {
			b := ShownBullet{ID: playbook.BulletID(text.Draw(t, "id")), Content: text.Draw(t, "content"), Experiment: number.Draw(t, "experiment")}
			own.Shown, want.Shown = append(own.Shown, b), append(want.Shown, reflectedBullet(b))
		}
		for range rapid.IntRange(0, 20).Draw(t, "parts") {
			p := Part{
				Kind: PartKind(text.Draw(t, "kind")), Ref: text.Draw(t, "ref"), Tokens: number.Draw(t, "tokens"), Keep: number.Draw(t, "keep"),
				Text: text.Draw(t, "text"), Why: text.Draw(t, "why"),
			}
			own.Parts, want.Parts = append(own.Parts, p), append(want.Parts, reflectedPart(p))
		}
		if rapid.Bool().Draw(t, "empty lists") {
			own, want = lists{Shown: []ShownBullet{}, Parts: []Part{}}, reflected{Shown: []reflectedBullet{}, Parts: []reflectedPart{}}
		}
		data, err := Marshal(own)
		byReflection, rerr := Marshal(&want)
		if err != nil || rerr != nil || !bytes.Equal(data, byReflection) {
			t.Fatalf("got %x, %v, want %x, %v", data, err, byReflection, rerr)
		}
		var back lists
		if err := Unmarshal(data, &back); err != nil || !reflect.DeepEqual(back, own) {
			t.Fatalf("got %+v, %v, want %+v", back, err, own)
		}
	})
}

// TestListsOfOtherPrograms checks elements that this program does not write: nil, unknown and repeated fields, and values of
// other types.
func TestListsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, data string
		want       []ShownBullet // nil means an error
	}{
		{"nil element", "\x92\xc0\x81\xa2id\xa1a", []ShownBullet{{}, {ID: "a"}}},
		{"nil field", "\x91\x82\xa2id\xc0\xa1x\xc0", []ShownBullet{{}}},
		{"unknown fields", "\x91\x83\xb0a_very_long_name\x92\x01\x02\xa2id\xa1a\xa3new\x81\xa1k\xa1v", []ShownBullet{{ID: "a"}}},
		{"repeated field", "\x91\x82\xa1x\x01\xa1x\x02", []ShownBullet{{Experiment: 2}}},
		{"text for a number", "\x91\x81\xa1x\xa1a", nil},
		{"number for a text", "\x91\x81\xa2id\x01", nil},
		{"number for a struct", "\x91\x01", nil},
		{"number for a name", "\x91\x81\x01\xa1a", nil},
		{"extension for a struct", "\x91\xc7\x05\x01\x81\xa2id\xa1", nil},
		{"map for the list", "\x81\xa2id\xa1a", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var got []ShownBullet
			err := Unmarshal([]byte(test.data), &got)
			if (err != nil) != (test.want == nil) || err == nil && !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, test.want)
			}
		})
	}
}

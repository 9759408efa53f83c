package events

import (
	"reflect"
	"testing"
)

// TestShownBulletsOfOtherPrograms checks the array of a shown bullet, and elements that this program does not write: fields that a
// later version adds, and values of other types.
func TestShownBulletsOfOtherPrograms(t *testing.T) {
	t.Parallel()
	bullet := ShownBullet{ID: "a", Wording: 7, Experiment: 2, Why: "b"}
	data, err := Marshal([]ShownBullet{{ID: bullet.ID, Content: "not stored", Wording: 7, Experiment: 2, Why: "b"}})
	if want := "\x91\x94\xa1a\x07\x02\xa1b"; err != nil || string(data) != want {
		t.Errorf("got %x, %v, want %x", data, err, want)
	}
	for _, test := range []struct {
		name, data string
		want       []ShownBullet // nil means an error
	}{
		{"bullet", "\x91\x94\xa1a\x07\x02\xa1b", []ShownBullet{bullet}},
		{"later fields", "\x92\x96\xa1a\x07\x02\xa1b\x81\xa1k\xa1v\x05\x94\xa1c\x00\x00\xa0", []ShownBullet{bullet, {ID: "c"}}},
		{"too few fields", "\x91\x93\xa1a\x07\x02", nil},
		{"nil bullet", "\x91\xc0", []ShownBullet{{}}},
		{"map for a bullet", "\x91\x81\xa2id\xa1a", nil},
		{"nil fields", "\x91\x94\xc0\xc0\xc0\xc0", []ShownBullet{{}}},
		{"text for a number", "\x91\x94\xa1a\xa1a\x00\xa0", nil},
		{"number for a text", "\x91\x94\x01\x00\x00\xa0", nil},
		{"extension for a bullet", "\x91\xc7\x05\x01\x93\xa1a\x07\x02", nil},
		{"text for the list", "\xa1a", nil},
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

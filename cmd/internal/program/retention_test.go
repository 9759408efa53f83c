package program

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/events/streams"
)

// TestRetentionHasAFlagForEachSetting: the flags are exactly the settings of the streams, with their defaults.
func TestRetentionHasAFlagForEachSetting(t *testing.T) {
	t.Parallel()
	var flags, settings []streams.Setting
	r := new(Retention)
	r.SetDefaults()
	r.each(func(name string, value reflect.Value) {
		flags = append(flags, streams.Setting{Name: name, Value: value.Int()})
	})
	for _, s := range streams.Settings() {
		settings = append(settings, streams.Setting{Name: s.Name, Value: s.Value})
	}
	for _, all := range [][]streams.Setting{flags, settings} {
		slices.SortFunc(all, func(a, b streams.Setting) int { return strings.Compare(a.Name, b.Name) })
	}
	if !slices.Equal(flags, settings) {
		t.Errorf("got the flags %v, want %v", flags, settings)
	}
}

// TestOnlyChosenLimitsAreSet: a default chooses nothing, a 0 of a person does.
func TestOnlyChosenLimitsAreSet(t *testing.T) {
	t.Parallel()
	r := new(Retention)
	r.SetDefaults()
	r.Tasks.Age = 0
	from := Effective{{Name: "tasks-age", Value: "0", Origin: "file.yaml"}, {Name: "dead-age", Value: "7d", Origin: "default"}, {Name: "deltas-size", Value: "0", Origin: "flag"}}
	if got, want := r.chosen(from), []streams.Setting{{Name: "tasks-age"}, {Name: "deltas-size"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

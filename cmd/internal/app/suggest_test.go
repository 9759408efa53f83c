package app

import "testing"

func TestSuggestionNamesTheMostSimilarName(t *testing.T) {
	t.Parallel()
	known := []string{"DEBRIEF_DATA_DIR", "DEBRIEF_WINDOW", "window", "window-text", "nats"}
	for name, want := range map[string]string{
		"DEBRIEF_WINDOWS": " (did you mean DEBRIEF_WINDOW?)",
		"DEBRIEF_DATADIR": " (did you mean DEBRIEF_DATA_DIR?)",
		"windw":           " (did you mean window?)",
		"nast":            " (did you mean nats?)",
		"nat":             " (did you mean nats?)",
		"DEBRIEF_PORTAL":  "",
		"zebra":           "",
		"":                "",
	} {
		if got := suggestion(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestDistanceCountsEdits(t *testing.T) {
	t.Parallel()
	for pair, want := range map[[2]string]int{{"", ""}: 0, {"", "abc"}: 3, {"abc", ""}: 3, {"kitten", "sitting"}: 3, {"window", "windw"}: 1} {
		if got := distance(pair[0], pair[1]); got != want {
			t.Errorf("%v: got %d, want %d", pair, got, want)
		}
	}
}

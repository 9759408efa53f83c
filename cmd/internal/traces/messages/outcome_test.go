package messages

import "testing"

func TestOutcomesOfText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1": "success", "0.0": "failure", ".5": "partial", " true ": "success", "Wrong": "failure", `"passed"`: "success", `"0.25"`: "partial",
		"partial": "partial", "": "unknown", "null": "unknown", `{"score":1}`: "success", "resolved": "success",
	} {
		if got, err := OutcomeOfText(text); err != nil || string(got.Label) != want {
			t.Errorf("%q: got %+v, error %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"85", "-1", "great", "NaN", "[]", `{"score":2}`} {
		if got, err := OutcomeOfText(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

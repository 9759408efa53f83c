package steps

import "testing"

func TestToolFailed(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]bool{
		"":                             false,
		"ok":                           false,
		"Error: no such file":          true,
		"error: no such file":          true,
		"an error in the invoice":      false,
		"No errors.":                   false,
		`{"error": "no such file"}`:    true,
		`{"error": null, "status": 1}`: false,
		`{"status": "error"}`:          true,
		"An error occurred while running the tool. Please try again. Error: no such file": true, // OpenAI's Agents SDK
		"An error occurred in 1912, and the ship sank.":                                   false,
	} {
		if got := ToolFailed("", output); got != want {
			t.Errorf("%q: got %v, want %v", output, got, want)
		}
	}
}

package text_test

import (
	"strings"
	"testing"

	"debrief/playbook/text"
)

func TestErrorLine(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("progress\n", 5000)
	for name, test := range map[string]struct{ output, want string }{
		"empty":                  {" \n", ""},
		"first line":             {"\n\nso it goes\nand on", "so it goes"},
		"a ruler before":         {"-----\n{\nso it goes", "so it goes"},
		"only a ruler":           {"-----", "-----"},
		"a word of an error":     {"start\nfile not found: x\nend", "file not found: x"},
		"a panic":                {"goroutine 1\npanic: index out of range", "panic: index out of range"},
		"a label":                {"Error: unknown host", "unknown host"},
		"tags of a tool":         {"<tool_use_error>File has not been read yet.</tool_use_error>", "File has not been read yet."},
		"a label in a tag":       {"<tool_use_error>Error: No such tool available: Fetch</tool_use_error>", "No such tool available: Fetch"},
		"a heading":              {"ERRORS:\ninvalid date", "invalid date"},
		"an exit code before":    {"Exit code 2\nmake: no rule", "make: no rule"},
		"the last traceback":     {"Traceback (most recent call last):\n  x\nKeyError: 1\nTraceback (most recent call last):\n  y\nValueError: 2", "ValueError: 2"},
		"JSON":                   {`{"code": 4, "error": "no berth"}`, "no berth"},
		"JSON with an object":    {`{"error": {"code": 4, "message": "no berth"}}`, "no berth"},
		"JSON with a detail":     {`{"Detail": "no berth"}`, "no berth"},
		"JSON that is cut off":   {`{"error": {"message": "no berth"}, "data": [1, 2`, "no berth"},
		"JSON of something else": {`{"berth": "4"}`, `{"berth": "4"}`},
		"the end of a long text": {long + "fatal: disk full", "fatal: disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := text.ErrorLine(test.output); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

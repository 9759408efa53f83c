package program

import (
	"slices"
	"strings"
	"testing"
)

func TestNegativeNumbersAreValues(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"up --reflections -1":      "up --reflections=-1",
		"up --a=1 -1":              "up --a=1 -1",
		"up --weight -.5 --json":   "up --weight=-.5 --json",
		"up --model -m":            "up --model -m",
		"up -- --reflections -1":   "up -- --reflections -1",
		"submit -1":                "submit -1",
		"up --reflections -1 -1 x": "up --reflections=-1 -1 x",
	} {
		if got := joinNegative(strings.Fields(args)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %q", args, got, want)
		}
	}
}

// TestMissingArgument: the error names the argument in the form of the other errors.
func TestMissingArgument(t *testing.T) {
	t.Parallel()
	type arguments struct {
		Question string `arg:""`
	}
	p := Program{Name: "p", CLI: new(struct{ Common }), Commands: []Command{{Name: "do", Help: "x", Run: new(arguments)}, {Name: "other", Help: "x", Run: new(arguments)}}}
	_, err := p.parse([]string{"do"})
	if err == nil {
		t.Fatal("got no error")
	}
	if got, want := explain(err, []string{"do"}).Error(), "<question>: required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEmptyTexts: an empty text on the command line is an error, because commands cannot tell it from a flag that is left out.
func TestEmptyTexts(t *testing.T) {
	t.Parallel()
	type arguments struct {
		Files []string `arg:"" optional:""`
		Text  string
		List  []string
	}
	type words struct {
		Words []string `arg:"" optional:"" passthrough:""`
	}
	for _, test := range []struct {
		args []string
		want string // of the error; "" for none
	}{
		{[]string{"do", "--text", ""}, "--text: is empty"},
		{[]string{"do", "--text="}, "--text: is empty"},
		{[]string{"do", "--list", ""}, "--list: is empty"},
		{[]string{"do", "--list", "a,,b"}, "--list: is empty"},
		{[]string{"do", ""}, "<files>: is empty"},
		{[]string{"do", "a", ""}, "<files>: is empty"},
		{[]string{"do", "--text", "", "--list", ""}, "--list: is empty"},
		{[]string{"do", "--text", " ", "--list", "a,b", "c"}, ""},
		{[]string{"do"}, ""},
		{[]string{"complete", "do", ""}, ""},
	} {
		p := Program{Name: "p", CLI: new(struct{ Common }), Commands: []Command{
			{Name: "do", Help: "x", Run: new(arguments)}, {Name: "complete", Help: "x", Run: new(words)},
		}}
		_, err := p.parse(test.args)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%q: got %v", test.args, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%q: got %v, want %s", test.args, err, test.want)
		}
	}
}

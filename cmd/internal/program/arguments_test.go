package program

import (
	"strings"
	"testing"
)

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

package outcome

import "testing"

func TestCommandOfWords(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words []string
		want  string
	}{
		{[]string{"bash", "-lc", "go test ./..."}, "go test ./..."},
		{[]string{"/bin/sh", "-c", "make"}, "make"},
		{[]string{"grep", "-c", "pattern"}, "grep -c pattern"},
		{[]string{"gcc", "-c", "a file.c"}, "gcc -c 'a file.c'"},
	} {
		if got := commandOfWords(test.words); got != test.want {
			t.Errorf("%q: got %q, want %q", test.words, got, test.want)
		}
	}
}

package text

import (
	"regexp"
	"strings"
	"sync"
)

// Pattern returns a function that compiles a regular expression at its first call. Most programs and commands need few of the
// expressions of their packages, and to compile all of them takes longer than most commands run.
func Pattern(parts ...string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(strings.Join(parts, "")) })
}

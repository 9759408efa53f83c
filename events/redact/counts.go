package redact

import (
	"strings"
	"sync/atomic"
)

// Classes of secrets are the last words of their kinds: a github token is a token. What has none of these is other.
const other = "other"

var secretClasses = [...]string{"authorization", "credentials", "jwt", "key", "password", "secret", "seed", "signature", "token", "webhook", other}

// replaced is how many secrets of each class were replaced. It is the process's: texts are redacted at many doors, and at
// none of them anybody knows who counts.
var replaced [len(secretClasses)]atomic.Uint64

func count(kind string) {
	class := kind[strings.LastIndexByte(kind, ' ')+1:]
	i := 0
	for i < len(secretClasses)-1 && secretClasses[i] != class {
		i++
	}
	replaced[i].Add(1)
}

// Counts calls yield with each class of secrets, such as "token", and how many of it this process has replaced.
func Counts(yield func(class string, n uint64) bool) {
	for i, class := range secretClasses {
		if !yield(class, replaced[i].Load()) {
			return
		}
	}
}

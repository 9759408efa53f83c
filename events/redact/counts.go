package redact

import (
	"strings"
	"sync/atomic"
)

// The class of a secret is the last word of its kind: a github token is a token. An unknown class counts as other.
const other = "other"

var secretClasses = [...]string{"authorization", "credentials", "jwt", "key", "password", "secret", "seed", "signature", "token", "webhook", other}

// replaced counts the redacted secrets of each class. It is global for the process, because texts are redacted in
// many places that have no access to the metrics.
var replaced [len(secretClasses)]atomic.Uint64

func count(kind string) {
	class := kind[strings.LastIndexByte(kind, ' ')+1:]
	i := 0
	for i < len(secretClasses)-1 && secretClasses[i] != class {
		i++
	}
	replaced[i].Add(1)
}

// Counts calls yield with each class of secrets, such as "token", and the number of its secrets that this process
// has redacted.
func Counts(yield func(class string, n uint64) bool) {
	for i, class := range secretClasses {
		if !yield(class, replaced[i].Load()) {
			return
		}
	}
}

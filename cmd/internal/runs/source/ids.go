// Package source reads the files of recorded runs: it decompresses and decodes them, and splits them into lines, JSON objects
// and records of tables. It repairs damaged lines, bounds memory, and counts omitted content. It knows no formats of
// recorders and no events.
package source

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"debrief/playbook/text"
)

// Digest returns a hash of JSON that does not depend on its white space.
func Digest(raw []byte) []byte {
	compact, _ := jsontext.AppendFormat(nil, raw, slices.Concat(lenient, []jsontext.Options{jsontext.PreserveRawStrings(true)})...)
	sum := sha256.Sum256(compact)
	return sum[:16]
}

// BaseName returns the file name without folder and extension, for use in an id.
func BaseName(name string) string {
	name = filepath.Base(name)
	for _, compressed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, compressed)
	}
	return Printable(strings.TrimSuffix(name, filepath.Ext(name)))
}

// Printable replaces the characters of s that an id cannot contain.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || !unicode.IsPrint(r) {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(s, "_"))
}

// MaxID is the maximum size of the ids in an execution, in bytes.
const MaxID = 256

// Shorten returns s if it has at most n bytes. Otherwise it replaces the end of s by a hash of s, so that the result has at most n bytes.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	end := "~" + hex.EncodeToString(sum[:8])
	return text.Prefix(s, n-len(end)) + end
}

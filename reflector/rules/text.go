package rules

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"debrief/playbook/text"
)

// The text of a trace is not trusted. All of it that enters a finding passes through clean, which returns one line of
// limited length without the characters that have a meaning in a playbook or in the text of a finding.

// clean returns s as a part of a finding's text; see [text.Quotable]. It returns "?" for an empty text.
func clean(s string, n int) string { return cmp.Or(text.Quotable(s, n), "?") }

// key returns the key of a finding, at most maxKey bytes. Parts are escaped, so different parts give different keys. A
// long key ends with a hash of the whole key.
func key(rule string, parts ...string) string {
	k := rule
	for _, p := range parts {
		k += "/" + keyPart.Replace(p)
	}
	printable := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(k, "?"))
	if printable == k && len(k) <= maxKey {
		return k
	}
	sum := sha256.Sum256([]byte(k))
	return text.Prefix(printable, maxKey-17) + "~" + hex.EncodeToString(sum[:8])
}

var keyPart = strings.NewReplacer("%", "%25", "/", "%2F", "~", "%7E")

// list joins names in a sentence: "a", "a and b", "a, b and c". Beyond maxNames it gives the number of the rest.
func list(names []string) string {
	if len(names) > maxNames {
		rest := len(names) - maxNames
		names = append(slices.Clone(names[:maxNames]), fmt.Sprintf("%d more", rest))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// parseArguments returns the arguments of a call by name, and whether they are a JSON object.
func parseArguments(arguments string) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	err := json.Unmarshal([]byte(arguments), &m)
	return m, err == nil && m != nil
}

// canonical returns the arguments of a call in canonical form.
func (t *run) canonical(call int) string {
	if t.canonicalArgs == nil {
		t.canonicalArgs = make([]string, len(t.calls))
	}
	if t.canonicalArgs[call] == "" {
		t.canonicalArgs[call] = canonical(t.calls[call].Arguments)
	}
	return t.canonicalArgs[call]
}

// canonical returns arguments in canonical form: JSON with sorted names and without white space between values. Other text, and
// arguments over 64 KB, are compared exactly.
func canonical(arguments string) string {
	if len(arguments) > 64<<10 {
		return arguments
	}
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return arguments
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(v) != nil {
		return arguments
	}
	return strings.TrimSuffix(b.String(), "\n")
}

package source

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// maxDepth is the maximum nesting of valid JSON, as in package json.
const maxDepth = 10_000

// Valid reports the same as json.Valid, in a quarter of the time.
func Valid(raw []byte) bool {
	i := validValue(raw, skipSpace(raw, 0), 0)
	return i > 0 && skipSpace(raw, i) == len(raw)
}

// validValue returns the end of the value at i, or 0 if it is invalid.
func validValue(b []byte, i, depth int) int {
	if i >= len(b) {
		return 0
	}
	switch c := b[i]; {
	case c == '"':
		return validString(b, i)
	case c == '{':
		return validList(b, i, '}', depth+1)
	case c == '[':
		return validList(b, i, ']', depth+1)
	case c == '-' || c >= '0' && c <= '9':
		return validNumber(b, i)
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return 0
}

// validList returns the end of the list at i, or of the object, whose values have a name.
func validList(b []byte, i int, end byte, depth int) int {
	if depth > maxDepth {
		return 0
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == end {
		return i + 1
	}
	for i < len(b) {
		if end == '}' {
			if b[i] != '"' {
				return 0
			}
			if i = validString(b, i); i == 0 {
				return 0
			}
			if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
				return 0
			}
			i = skipSpace(b, i+1)
		}
		if i = validValue(b, i, depth); i == 0 {
			return 0
		}
		switch i = skipSpace(b, i); {
		case i >= len(b):
			return 0
		case b[i] == end:
			return i + 1
		case b[i] != ',':
			return 0
		}
		i = skipSpace(b, i+1)
	}
	return 0
}

// validString returns the end of the string at i.
func validString(b []byte, i int) int {
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return i + 1
		case c < ' ':
			return 0
		case c != '\\':
			continue
		}
		if i++; i >= len(b) {
			return 0
		}
		switch b[i] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		case 'u':
			for range 4 {
				if i++; i >= len(b) || !isHex(b[i]) {
					return 0
				}
			}
		default:
			return 0
		}
	}
	return 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

// validNumber returns the end of the number at i.
func validNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digits(b, i); i == 0 {
		return 0
	}
	if i < len(b) && b[i] == '.' {
		if i = digits(b, i+1); i == 0 {
			return 0
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digits(b, i)
	}
	return i
}

// digits returns the end of the digits at i, or 0 without any.
func digits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		i++
	}
	if i == start {
		return 0
	}
	return i
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// String returns the text of a valid JSON string. Most have no escapes, or simple ones.
func String(v json.RawMessage) (s string, err error) {
	if n := len(v) - 1; n > 0 && v[0] == '"' && v[n] == '"' && utf8.Valid(v) {
		if s, ok := unescape(v[1:n]); ok {
			return s, nil
		}
	}
	return s, json.Unmarshal(v, &s)
}

// unescape returns the text between the quotation marks of a JSON string. It returns false for an invalid text, and for one with the
// numbers of characters.
func unescape(b []byte) (string, bool) {
	i := special(b)
	if i == len(b) {
		return string(b), true
	}
	text := make([]byte, 0, len(b))
	for ; i < len(b); i = special(b) {
		if b[i] != '\\' || i+1 == len(b) {
			return "", false
		}
		at := bytes.IndexByte([]byte(`"\/bfnrt`), b[i+1])
		if at < 0 {
			return "", false
		}
		text = append(append(text, b[:i]...), "\"\\/\b\f\n\r\t"[at])
		b = b[i+2:]
	}
	return string(append(text, b...)), true
}

// special returns the index of the first byte that does not stand for itself in a JSON string, or the length of b.
func special(b []byte) int {
	for i, c := range b {
		if c < ' ' || c == '\\' || c == '"' {
			return i
		}
	}
	return len(b)
}

package redact

import "strings"

// maxLook is how many bytes of a value are looked at.
const maxLook = 256

// secret reports whether a value looks like what its name says, and not like code, a type, a reference or a word of prose.
func (v value) secret(says secrecy, name, s string) bool {
	text := s[v.from:min(v.to, v.from+maxLook)]
	if placeholder(text) || reference(text) || strings.Contains(text, markBegin[:len(markBegin)-1]) || strings.Contains(text, "-----BEGIN") || same(text, name) {
		return false
	}
	letters, digits, others, upper := 0, 0, 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case isDigit(c):
			digits++
		case isUpper(c):
			upper++
			letters++
		case isLower(c):
			letters++
		case isSpace(c):
			if len(name) < 6 || !strings.EqualFold(name[len(name)-6:], "phrase") {
				return false
			}
		default:
			others++
		}
	}
	if !v.quoted && strings.ContainsAny(text, "([{") && !(v.closely && shouted(name)) {
		return false // a call, a list or an index
	}
	switch says {
	case signature:
		return len(text) >= 32 && (drawn(text, 16) || others > 0 && digits > 1)
	case password:
		return v.password(text, name, s, letters, digits, others)
	}
	switch { // a token or a key
	case len(text) < 8 || letters == 0 && len(text) < 16:
		return false
	case isUUID(text):
		return true
	case v.quoted || v.closely && v.equals:
		return drawn(text, 6) || len(text) >= 20 && digits > 1 && !isIdentifier(text) || len(text) >= 24 && upper > 1 && letters-upper > 1 && !isIdentifier(text)
	}
	return digits > 1 && drawn(text, 8) || drawn(text, 16)
}

func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		if dash := i == 8 || i == 13 || i == 18 || i == 23; dash != (text[i] == '-') || !dash && !isAlnum(text[i]) {
			return false
		}
	}
	return true
}

// password reports whether a value is a password: chosen by people, so hardly anything but the place tells.
func (v value) password(text, name, s string, letters, digits, others int) bool {
	switch {
	case len(text) < 4:
		return false
	case v.quoted:
		return true
	case isIdentifier(text):
		// A variable, a type or a word, unless the place is one where there are none.
		return v.closely && v.equals && len(text) >= 6 && (shouted(name) || v.listed(s, name))
	case letters == 0 && others == 0: // a number
		return v.equals && v.closely && len(text) >= 4 && (shouted(name) || len(text) >= 6)
	case others > 0 && letters+digits == 0:
		return false
	case letters == 0:
		return false // a range, a date, a size
	}
	return len(text) >= 6 && (digits > 0 || v.closely && v.equals) && !isPath(text)
}

// listed reports whether a value stands in a list of names and values, as in a connection string: "Password=…;" or
// "password=… host=…".
func (v value) listed(s, name string) bool {
	if v.to >= len(s) {
		return false
	}
	if s[v.to] == ';' {
		before := v.from - 1 - len(name) - 1
		return isUpper(name[0]) || before >= 0 && s[before] == ';'
	}
	if s[v.to] != ' ' {
		return false
	}
	n := run(s[v.to+1:], wordy, maxName)
	at := v.to + 1 + n
	return n > 0 && at < len(s) && s[at] == '=' && at+1 < len(s) && !isSpace(s[at+1]) && s[at+1] != '='
}

// shouted reports whether a name is written like that of an environment variable.
func shouted(name string) bool {
	for i := range len(name) {
		if isLower(name[i]) {
			return false
		}
	}
	return true
}

// isIdentifier reports whether text could be a name in a program: words without digits, but for one at the end.
func isIdentifier(text string) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case isLetter(c), c == '_', c == '.', c == '-', c == '?', c == '!', c == '|':
		case isDigit(c) && (i+1 == len(text) || !isAlnum(text[i+1])) && i > 0 && isLetter(text[i-1]) && strings.ContainsAny(text, "_."):
		default:
			return false
		}
	}
	return true
}

func isPath(text string) bool {
	return strings.HasPrefix(text, "/") || strings.HasPrefix(text, "./") || strings.HasPrefix(text, "../") || strings.HasPrefix(text, "~") ||
		len(text) > 2 && text[1] == ':' && (text[2] == '\\' || text[2] == '/')
}

// reference reports whether a value says where a secret is, and is none.
func reference(text string) bool {
	for _, prefix := range []string{
		"$", "{", "<", "%", "@", "#", "arn:", "vault:", "op://", "file:", "http://", "https://", "projects/", "secret://", "ref:", "env:",
		"process.env", "os.environ", "os.getenv", "System.getenv", "ENV[", "config.", "settings.", "self.", "this.", "secrets.", "vars.", "!",
	} {
		if strings.HasPrefix(text, prefix) {
			return len(text) > 1 && (len(prefix) > 1 || prefix != "!" && prefix != "#" && prefix != "@" && prefix != "%" || isIdentifier(text[1:]))
		}
	}
	return isPath(text) && !drawn(text, 20) // base64 has slashes too
}

// fillers are words that stand where a secret would.
var fillers = func() map[string]bool {
	words := make(map[string]bool)
	for w := range strings.FieldsSeq(`none null nil true false undefined string str bytes text required optional todo tbd redacted hidden masked
		empty secret password passwd pass pwd token key apikey api_key changeme change-me change_me replaceme replace-me replace_me
		insecure unset missing invalid valid expired default enabled disabled yes no n/a number boolean object any unknown bearer
		basic username user sample example placeholder credentials credential dummy fake`) {
		words[w] = true
	}
	return words
}()

// placeholder reports whether a value only holds the place of one.
func placeholder(text string) bool {
	var buf [24]byte
	low := buf[:0]
	for i := 0; i < len(text) && i < len(buf); i++ {
		c := text[i]
		if isUpper(c) {
			c += 'a' - 'A'
		}
		low = append(low, c)
	}
	if len(text) <= len(buf) && fillers[string(low)] {
		return true
	}
	start := string(low)
	for _, prefix := range []string{"your", "<", "${", "{{", "$(", "%(", "[redacted", "xxx", "***", "...", "my_", "my-", "insert", "enter", "some_", "some-"} {
		if strings.HasPrefix(start, prefix) {
			return true
		}
	}
	return strings.Trim(text, text[:min(len(text), 1)]) == "" // one character many times
}

// same reports whether a value is its own name, separators and case aside.
func same(text, name string) bool {
	strip := func(s string) string {
		return strings.Map(func(r rune) rune {
			if r == '_' || r == '-' || r == '.' {
				return -1
			}
			return r
		}, s)
	}
	return len(text) <= maxName && strings.EqualFold(strip(text), strip(name))
}

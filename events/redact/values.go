package redact

import "strings"

// maxLook is the number of bytes of a value that are examined.
const maxLook = 256

// charCounts has the numbers of bytes of a text by their class.
type charCounts struct{ letters, upper, digits, spaces, others int } // letters includes upper

func countChars(text string) (n charCounts) {
	for i := range len(text) {
		switch c := text[i]; {
		case isDigit(c):
			n.digits++
		case isUpper(c):
			n.upper++
			n.letters++
		case isLower(c):
			n.letters++
		case isSpace(c):
			n.spaces++
		default:
			n.others++
		}
	}
	return n
}

// isSecret reports whether a value of the text s looks like a secret of its kind, and not like code, a type, a reference or a word
// of a sentence.
func (v value) isSecret(kind nameKind, name, s string) bool {
	text := s[v.from:min(v.to, v.from+maxLook)]
	markWord := strings.TrimSuffix(markBegin, " ") // a value without quotes ends at the space in a mark
	isMark := strings.Contains(text, markWord) || strings.Contains(text, "-----BEGIN")
	if isMark || isPlaceholder(text) || isReference(text) || equalsName(text, name) {
		return false
	}
	n := countChars(text)
	isPhrase := strings.HasSuffix(strings.ToLower(name), "phrase")
	if n.spaces > 0 && !isPhrase { // only a passphrase has spaces
		return false
	}
	isVariable := v.adjacent && isUpperCase(name) // of an environment: NAME=value
	if !v.quoted && !isVariable && strings.ContainsAny(text, "([{") {
		return false // a call, a list or an index
	}
	switch kind {
	case signature:
		return len(text) >= 32 && (looksRandom(text, 16) || n.others > 0 && n.digits > 1)
	case password:
		return v.isPassword(name, s)
	}
	return v.isToken(text, n)
}

// isToken reports whether a value with a text is a token or a key. n has the numbers of its characters. A value that is not quoted, and not
// assigned with an equals sign, must look more random.
func (v value) isToken(text string, n charCounts) bool {
	switch {
	case len(text) < 8 || n.letters == 0 && len(text) < 16:
		return false
	case isUUID(text):
		return true
	case v.quoted || v.adjacent && v.equals:
		hasDigits := len(text) >= 20 && n.digits > 1
		hasBothCases := len(text) >= 24 && n.upper > 1 && n.letters-n.upper > 1
		return looksRandom(text, 6) || (hasDigits || hasBothCases) && !isIdentifier(text)
	}
	return n.digits > 1 && looksRandom(text, 8) || looksRandom(text, 16)
}

func isUUID(text string) bool {
	if len(text) != 36 {
		return false
	}
	for i := range len(text) {
		switch i {
		case 8, 13, 18, 23:
			if text[i] != '-' {
				return false
			}
		default:
			if !alnum[text[i]] {
				return false
			}
		}
	}
	return true
}

// isPassword reports whether a value of the text s is a password. People choose passwords, so the position is the main criterion.
func (v value) isPassword(name, s string) bool {
	text := s[v.from:min(v.to, v.from+maxLook)]
	n := countChars(text)
	isAssigned := v.adjacent && v.equals
	switch {
	case len(text) < 4:
		return false
	case v.quoted:
		return true
	case isIdentifier(text):
		// A variable, a type or a word, unless these do not occur in this position.
		return isAssigned && len(text) >= 6 && (isUpperCase(name) || v.inParameterList(s, name))
	case n.letters == 0 && n.others == 0: // a number
		return isAssigned && (isUpperCase(name) || len(text) >= 6)
	case n.letters == 0: // punctuation, a range, a date or a size
		return false
	}
	return len(text) >= 6 && (n.digits > 0 || isAssigned) && !isPath(text)
}

// inParameterList reports whether a value is in a list of names and values, as in a connection string:
// "Password=…;" or "password=… host=…".
func (v value) inParameterList(s, name string) bool {
	if v.to >= len(s) {
		return false
	}
	if s[v.to] == ';' {
		// The names of such a list are capitalized, or follow another value. Otherwise the text may be a statement: "password=input;".
		beforeName := v.from - len("=") - len(name) - 1 // the byte in front of the name, if only "=" is between name and value
		return isUpper(name[0]) || beforeName >= 0 && s[beforeName] == ';'
	}
	if s[v.to] != ' ' {
		return false
	}
	n := run(s[v.to+1:], wordChars, maxName) // the next name
	at := v.to + 1 + n
	if n == 0 || at+1 >= len(s) || s[at] != '=' {
		return false
	}
	return !isSpace(s[at+1]) && s[at+1] != '='
}

// isUpperCase reports whether a name is written like an environment variable.
func isUpperCase(name string) bool {
	for i := range len(name) {
		if isLower(name[i]) {
			return false
		}
	}
	return true
}

// isIdentifier reports whether text may be a name in a program: words without digits. If the name has several words, each may end
// with one digit.
func isIdentifier(text string) bool {
	for i := range len(text) {
		c := text[i]
		switch {
		case isLetter(c), c == '_', c == '.', c == '-', c == '?', c == '!', c == '|':
		case isDigit(c):
			isLast := i+1 == len(text) || !alnum[text[i+1]] // of its word
			endsWord := isLast && i > 0 && isLetter(text[i-1])
			if !endsWord || !strings.ContainsAny(text, "_.") {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func isPath(text string) bool {
	for _, prefix := range []string{"/", "./", "../", "~"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return len(text) > 2 && (text[1:3] == `:\` || text[1:3] == ":/") // of Windows
}

// isReference reports whether a value only refers to a secret, such as a variable or a path.
func isReference(text string) bool {
	for _, prefix := range []string{
		"$", "{", "<", "%", "@", "#", "arn:", "vault:", "op://", "file:", "http://", "https://", "projects/", "secret://", "ref:", "env:",
		"process.env", "os.environ", "os.getenv", "System.getenv", "ENV[", "config.", "settings.", "self.", "this.", "secrets.", "vars.", "!",
	} {
		if strings.HasPrefix(text, prefix) {
			mayBeginPassword := strings.Contains("!#@%", prefix) //nolint:gocritic // a prefix is one character
			return len(text) > 1 && (!mayBeginPassword || isIdentifier(text[1:]))
		}
	}
	return isPath(text) && !looksRandom(text, 20) // base64 has slashes too
}

// placeholderWords are words in place of a secret.
var placeholderWords = func() map[string]bool {
	words := make(map[string]bool)
	for w := range strings.FieldsSeq(`none null nil true false undefined string str bytes text required optional todo tbd redacted hidden masked
		empty secret password passwd pass pwd token key apikey api_key changeme change-me change_me replaceme replace-me replace_me
		insecure unset missing invalid valid expired default enabled disabled yes no n/a number boolean object any unknown bearer
		basic username user sample example placeholder credentials credential dummy fake`) {
		words[w] = true
	}
	return words
}()

// isPlaceholder reports whether a value is a placeholder for a secret.
func isPlaceholder(text string) bool {
	var buf [24]byte
	low := buf[:0]
	for i := 0; i < len(text) && i < len(buf); i++ {
		c := text[i]
		if isUpper(c) {
			c += 'a' - 'A'
		}
		low = append(low, c)
	}
	if len(text) <= len(buf) && placeholderWords[string(low)] {
		return true
	}
	start := string(low) // at most the first bytes
	for _, prefix := range []string{"your", "<", "${", "{{", "$(", "%(", "[redacted", "xxx", "***", "...", "my_", "my-", "insert", "enter", "some_", "some-"} {
		if strings.HasPrefix(start, prefix) {
			return true
		}
	}
	return strings.Trim(text, text[:min(len(text), 1)]) == "" // one repeated character
}

// equalsName reports whether a value equals its name, without separators and case.
func equalsName(text, name string) bool {
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

package redact

import "strings"

// redactNetrc redacts the password of an entry of a netrc file at i: "machine host login name password value", or the same with "default" in
// place of "machine host". The words may be on several lines.
func (sc *scanner) redactNetrc(i int) int {
	s := sc.s
	var host string
	at := i + len("default")
	switch {
	case strings.HasPrefix(s[i:], "machine"):
		host, at = netrcWord(s, i+len("machine"))
	case !strings.HasPrefix(s[i:], "default"):
		return i
	}
	hasLogin := false
	var from, to int // of the password
	for range 3 {
		key, end := netrcWord(s, at)
		if key != "login" && key != "account" && key != "password" {
			break
		}
		var val string
		val, at = netrcWord(s, end)
		switch key {
		case "login":
			hasLogin = true
		case "password":
			from, to = at-len(val), at
		}
	}
	pass := s[from:to]
	if !sc.isLastView && pass != "" && pass[0] == '\\' {
		return i // begins with an escape: find scans the text again with its escapes decoded
	}
	mayBeProse := isIdentifier(pass) && !strings.ContainsAny(host, ".-0123456789")
	if !hasLogin || len(pass) < 4 || mayBeProse || isPlaceholder(pass) || isReference(pass) {
		return i
	}
	return sc.replace(from, to, string(password))
}

// netrcWord returns the word after the spaces and line breaks at i, and its end. The word is empty without such spaces, and at the end of the text.
func netrcWord(s string, i int) (word string, end int) {
	from := i
	for from < min(len(s), i+maxBlanks) {
		n := 1
		if isEscapedSpace(s[from:]) {
			n = 2
		} else if !isSpace(s[from]) {
			break
		}
		from += n
	}
	if from == i {
		return "", i
	}
	end = from
	for end < min(len(s), from+maxLook) && !isSpace(s[end]) && strings.IndexByte("\"'`", s[end]) < 0 && !isEscapedSpace(s[end:]) {
		end++
	}
	for end > from && s[end-1] == '\\' { // of an escaped quote
		end--
	}
	return s[from:end], end
}

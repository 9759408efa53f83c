package redact

import "strings"

// Limits of the text that is examined on both sides of a separator, in bytes.
const (
	maxName     = 64
	maxBlanks   = 16 // spaces between a name, the separator and the value
	maxClosers  = 8  // closers between a name and the separator
	maxTwoWords = 16 // a name of two words, such as "API key"
	maxQuoted   = 1024
	maxURL      = 512  // between :// and the host
	maxCookies  = 4096 // a list of cookies
)

// nameKind is the kind of secret that a name suggests for its value. It is empty if the value is public.
type nameKind string

const (
	public        nameKind = ""
	password      nameKind = "password"
	token         nameKind = "token"
	secret        nameKind = "secret"
	authorization nameKind = "authorization"
	signature     nameKind = "signature"
	sessionToken  nameKind = "session token"
	cookieList    nameKind = "cookies" // a list of names and values
)

// redactAssignment redacts the value after a colon or an equals sign, if the name before it suggests a secret and the value looks like one.
// It returns the position at which the scan continues: i, or a position after the redacted value.
func (sc *scanner) redactAssignment(i int) int {
	s := sc.s
	if s[i] == ':' && strings.HasPrefix(s[i:], "://") {
		return sc.redactURL(i)
	}
	beginsOperator := i+1 < len(s) && s[i+1] == '='
	endsOperator := i > 0 && strings.IndexByte("=!<>", s[i-1]) >= 0
	if s[i] == '=' && (beginsOperator || endsOperator) { // a comparison
		return i
	}
	name, adjacent := sc.nameBefore(i)
	return sc.redactNamed(i, name, adjacent)
}

// lineEnds are the bytes that end a line or the string around it.
var lineEnds = alphabetOf("\n\r\"'`\\")

// findCookies finds the end of the list of cookies after the separator at i. It redacts nothing: the scan continues in the list. listEnds
// are the bytes that end a list without quotes.
func (sc *scanner) findCookies(i int, listEnds *alphabet) {
	s := sc.s
	if i < sc.cookies { // in a list
		return
	}
	from := backslashes(s, blanks(s, i+1))
	if from < len(s) && (s[from] == '"' || s[from] == '\'') {
		from++
		listEnds = lineEnds
	}
	sc.cookies = from
	for sc.cookies < min(len(s), from+maxCookies) && !listEnds[s[sc.cookies]] {
		sc.cookies++
	}
}

// redactNamed redacts the value after a separator, if the name before it suggests a secret and the value looks like one. adjacent is false
// if other characters are between name and separator.
func (sc *scanner) redactNamed(i int, name string, adjacent bool) int {
	s := sc.s
	kind := kindOfName(name)
	if i < sc.cookies && s[i] == '=' && (kind == public || kind == cookieList) {
		kind = sessionToken
	}
	switch kind {
	case public:
		return i
	case cookieList:
		sc.findCookies(i, lineEnds)
		return i
	}
	v, ok := sc.valueAfter(i, adjacent)
	if !ok {
		return i
	}
	if !v.quoted && !sc.isLastView && hasURLEscape(s[v.from:min(v.to, v.from+maxLook)]) {
		return i // a later scan sees the text with its escapes decoded
	}
	if kind == authorization {
		return sc.redactCredentials(i, v)
	}
	if !v.isSecret(kind, name, s) {
		return i
	}
	return sc.replace(v.from, v.to, string(kind))
}

// closers are characters between a name and the separator, as in ["name"] = and \"name\":.
var closers = alphabetOf("\"'`]\\")

// nameBefore returns the name before a separator. adjacent is false if other characters are between the two.
func (sc *scanner) nameBefore(i int) (name string, adjacent bool) {
	s := sc.s
	end := i
	if end > sc.floor && s[end-1] == ':' { // :=
		end--
	}
	adjacent = true
	for end > sc.floor && i-end < maxBlanks && (s[end-1] == ' ' || s[end-1] == '\t') {
		end, adjacent = end-1, false
	}
	for end > sc.floor && i-end < maxBlanks+maxClosers && closers[s[end-1]] {
		end--
	}
	begin := end
	for begin > sc.floor && end-begin < maxName && dotted[s[begin-1]] {
		begin--
	}
	followsSpace := begin > sc.floor && s[begin-1] == ' '
	if followsSpace && strings.EqualFold(s[begin:end], "key") { // "API key:"
		begin-- // the space
		for begin > sc.floor && end-begin < maxTwoWords && isLetter(s[begin-1]) {
			begin--
		}
		return strings.TrimSpace(s[begin:end]), adjacent
	}
	followsBackslash := begin > 0 && s[begin-1] == '\\'
	if followsBackslash && begin < end && strings.IndexByte("ntr", s[begin]) >= 0 {
		begin++ // after an escaped line break
	}
	return s[begin:end], adjacent
}

// ending is a suffix of names of secrets, without separators and in lower case.
type ending struct {
	text     string
	kind     nameKind
	separate bool // only as a separate word
}

// endingsByLastByte contains the endings by their last byte.
var endingsByLastByte = func() (byLastByte [256][]ending) {
	add := func(kind nameKind, separate bool, texts string) {
		for e := range strings.FieldsSeq(texts) {
			c := e[len(e)-1]
			byLastByte[c] = append(byLastByte[c], ending{e, kind, separate})
		}
	}
	add(password, false, "password passwd passphrase")
	add(password, true, "passcode pwd pass pw")
	add(token, false, "token")
	add(token, true, "jwt")
	add(secret, false, "secret apikey secretkey secretaccesskey accesskey accountkey sharedaccesskey privatekey signingkey encryptionkey "+
		"masterkey authkey servicekey subscriptionkey licensekey appkey secretkeybase credential credentials")
	add(secret, true, "auth") // of Docker and npm: name and password in base64
	add(authorization, false, "authorization")
	add(signature, true, "sig signature")
	add(cookieList, false, "cookie cookies")
	return byLastByte
}()

// tokenPrefixes contains words before "token" in names that are not secrets: tokens of a text or of a page of results.
var tokenPrefixes = []string{
	"next", "page", "nextpage", "prevpage", "continuation", "eos", "bos", "pad", "unk", "sep", "cls", "mask", "stop", "end",
	"start", "special", "first", "last", "prev", "previous", "sync", "image", "cancellation", "cancel", "input", "output",
	"per", "max", "min", "num", "prompt", "text", "current", "decoder", "begin", "word", "sub", "lookahead", "design",
}

// kindOfName returns the kind of secret that a name suggests.
func kindOfName(name string) nameKind {
	if name == "" || len(endingsByLastByte[name[len(name)-1]|0x20]) == 0 {
		return public
	}
	var buf [maxName]byte
	n := 0
	for i := range len(name) {
		c := name[i]
		if isUpper(c) {
			c += 'a' - 'A'
		}
		if alnum[c] {
			buf[n] = c
			n++
		}
	}
	low := buf[:n]
	if n < 2 {
		return public
	}
	for _, e := range endingsByLastByte[low[n-1]] {
		if n < len(e.text) || string(low[n-len(e.text):]) != e.text {
			continue
		}
		if e.separate && !isSeparateWord(name, len(e.text)) {
			continue
		}
		if e.text == "token" {
			before := string(low[:n-len(e.text)])
			for _, prefix := range tokenPrefixes {
				if strings.HasSuffix(before, prefix) {
					return public
				}
			}
		}
		return e.kind
	}
	return public
}

// isSeparateWord reports whether the last n bytes of a name are a separate word.
func isSeparateWord(name string, n int) bool {
	if len(name) < n {
		return false
	}
	at := len(name) - n
	if at == 0 || !alnum[name[at-1]] {
		return true
	}
	return isUpper(name[at]) && isLower(name[at-1]) // camelCase
}

// value is the value after a separator.
type value struct {
	from, to int // in the text of the scanner
	quoted   bool
	adjacent bool // name, separator and value are adjacent
	equals   bool // the separator is an equals sign
}

// valueAfter returns the value after a separator. It skips a type declaration between the two.
func (sc *scanner) valueAfter(i int, adjacent bool) (v value, ok bool) {
	s := sc.s
	v.equals = s[i] == '='
	i++
	if i < len(s) && !v.equals && s[i] == '=' { // :=
		v.equals = true
		i++
	}
	if i < len(s) && v.equals && s[i] == '>' { // =>
		i++
	}
	v.adjacent = adjacent && i < len(s) && !isSpace(s[i])
	i = blanks(s, i)
	if !v.equals {
		if at := afterType(s, i); at > i {
			i = blanks(s, at)
			v.equals, v.adjacent = true, false
		}
	}
	i = backslashes(s, i)
	if i < len(s) && strings.IndexByte("bru@", s[i]) >= 0 { // b"…"
		if k := backslashes(s, i+1); k < len(s) && (s[k] == '"' || s[k] == '\'') {
			i = k
		}
	}
	if i < len(s) && (s[i] == '"' || s[i] == '\'' || s[i] == '`') {
		ok = v.setQuoted(s, i)
		return v, ok
	}
	if !sc.isLastView && i < len(s) && s[i] == 'u' && s[i-1] == '\\' {
		if _, n := escape(s[i-1:]); n > 0 {
			return v, false // a later scan sees the text with its escapes decoded
		}
	}
	v.from, v.to = i, max(i, min(sc.unquoted, len(s))) // a value within the last one has the same end
	for v.to < len(s) && !ends[s[v.to]] && !(s[v.to] == '&' && isParameter(s[v.to:])) {
		v.to++
	}
	sc.unquoted = v.to
	for v.to > v.from && strings.IndexByte(",.)]}", s[v.to-1]) >= 0 {
		v.to--
	}
	return v, v.to > v.from
}

// ends are the bytes that end a value without quotes.
var ends = alphabetOf(" \t\n\r;\"'`<>\\")

// isParameter reports whether s begins with another query parameter, "&name=".
func isParameter(s string) bool {
	n := run(s[1:], dotted, maxName)
	return n > 0 && n+1 < len(s) && s[n+1] == '='
}

// setQuoted sets the bounds of the value between the quote at i and the next one in the same line. It returns false if there is none, or
// if the value is empty.
func (v *value) setQuoted(s string, i int) bool {
	quote, escaped := s[i], i > 0 && s[i-1] == '\\'
	v.quoted, v.from = true, i+1
	for to := i + 1; to < len(s) && to-i < maxQuoted; to++ {
		switch c := s[to]; {
		case c == quote:
			v.to = to
			return to > v.from
		case c == '\\' && escaped: // the quotes are escaped, so this is the end
			v.to = to
			return to > v.from
		case c == '\\':
			to++
		case c == '\n':
			return false
		}
	}
	return false
}

// backslashes returns the position after up to three backslashes.
func backslashes(s string, i int) int {
	for n := 0; n < 3 && i < len(s) && s[i] == '\\'; n++ {
		i++
	}
	return i
}

// blanks returns the position after up to maxBlanks spaces and tabs.
func blanks(s string, i int) int {
	for n := 0; n < maxBlanks && i < len(s) && (s[i] == ' ' || s[i] == '\t'); n++ {
		i++
	}
	return i
}

// types are type declarations between a name and its value.
var types = []string{"str", "string", "String", "bytes", "SecretStr", "Optional[str]", "&str", "str | None", "string | undefined"}

// afterType returns the start of a value after a type and an equals sign, or i without such a declaration.
func afterType(s string, i int) int {
	for _, t := range types {
		if strings.HasPrefix(s[i:], t) {
			if at := blanks(s, i+len(t)); at < len(s) && s[at] == '=' && !strings.HasPrefix(s[at:], "==") {
				return at + 1
			}
		}
	}
	return i
}

// redactCredentials redacts the credentials after the scheme of an Authorization header.
func (sc *scanner) redactCredentials(i int, v value) int {
	s := sc.s
	from := v.from
	for _, scheme := range []string{"bearer", "basic", "token", "apikey", "bot"} {
		if n := len(scheme); from+n < len(s) && strings.EqualFold(s[from:from+n], scheme) && s[from+n] == ' ' {
			from += n + 1
			to := from + run(s[from:], bearerChars, maxQuoted)
			cred := s[from:to]
			if len(cred) < 8 || isPlaceholder(cred) {
				return i
			}
			if scheme == "basic" || len(cred) >= 32 || looksRandom(cred, 6) {
				return sc.replace(from, to, "authorization")
			}
			return i
		}
	}
	if cred := s[v.from:v.to]; looksRandom(cred, 16) && !strings.ContainsAny(cred, "({[ $") {
		return sc.replace(v.from, v.to, "authorization")
	}
	return i
}

var hostEnds = alphabetOf(" \t\n\r/?#\"'`<>\\,;")

// redactURL redacts credentials between :// and the host.
func (sc *scanner) redactURL(i int) int {
	s := sc.s
	from := i + len("://")
	at, colon := -1, -1
	for k := from; k < len(s) && k-from < maxURL; k++ {
		c := s[k]
		if hostEnds[c] {
			break
		}
		if c == '@' {
			at = k
		}
		if c == ':' && colon < 0 {
			colon = k
		}
	}
	switch {
	case at < 0:
		return i
	case colon < 0 || colon > at:
		if user := s[from:at]; len(user) >= 20 && looksRandom(user, 16) {
			return sc.replace(from, at, "url credentials")
		}
		return i
	}
	pass := s[colon+1 : at]
	isTemplate := strings.ContainsAny(pass, "{}()$*") && !strings.Contains(pass, "%")
	if pass == "" || isTemplate || isPlaceholder(pass) || strings.Contains(pass, markBegin) {
		return i
	}
	return sc.replace(colon+1, at, "password")
}

package outcome

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"debrief/playbook/text"
)

// Same reports whether a person would accept an answer as equal to the target. It is for a target without an evaluator. The question tells only
// whether the answer is rounded, and whether a list is in any order. An empty answer is wrong.
//
//   - Numbers are compared by value, and days and times of day as such. The units of numbers must be equal; a unit that one side leaves out is
//     not compared.
//   - Words are compared without case, accents, articles and final punctuation, and without the words around them, as in
//     "In Bonn." and "The answer is Bonn".
//   - Identifiers, code and numbers with leading zeros are compared exactly.
//   - Lists are compared in order, JSON by value.
//
// It converts no units and reads no numbers in words: such targets need an evaluator.
func Same(question, target, answer string) bool {
	if strings.TrimSpace(target) == strings.TrimSpace(answer) {
		return true
	}
	target, answer = unwrap(target), unwrap(answer)
	if target == "" || answer == "" {
		return target == answer
	}
	if same, ok := sameJSON(target, answer); ok {
		return same
	}
	c := comparison{places: roundedPlaces(question), anyOrder: inAnyOrder().MatchString(question)}
	return c.same(target, answer) || slices.ContainsFunc(statements(answer), func(said string) bool { return c.same(target, unwrap(said)) })
}

// comparison has the facts of a question about its answer.
type comparison struct {
	places   int // decimal places, -1 for an answer that is not rounded
	anyOrder bool
}

func (c comparison) same(target, answer string) bool {
	if same, ok := c.sameList(target, answer); ok {
		return same
	}
	return c.sameItem(target, answer)
}

// sameItem compares texts that are not lists.
func (c comparison) sameItem(target, answer string) bool {
	switch {
	case target == answer:
		return target != ""
	case isCode(target):
		return target == strings.TrimRight(answer, ".")
	}
	if want, ok := parseDate(target); ok {
		got, ok := parseDate(answer)
		return ok && got.Equal(want)
	}
	if want, ok := parseQuantity(target); ok {
		got, ok := parseQuantity(answer)
		return ok && c.sameQuantity(want, got)
	}
	want, got := plainWords(target), plainWords(answer)
	if want == got && want != "" {
		return true
	}
	return sameVerdict(want, answer) || isOption(target, answer)
}

var inAnyOrder = text.Pattern(`(?i)\b(?:any order|order (?:does not|doesn't) matter|regardless of order|unordered|as a set)\b`)

// Wrappers around an answer.
var (
	codeFence = text.Pattern("(?s)\\A```[A-Za-z0-9+-]*[ \t]*\r?\n?(.*?)\\s*```\\z")
	boxed     = text.Pattern(`\A\$?\\boxed\{([^{}]*)\}\$?\.?\z`)
)

// quotes are the marks that may stand around an answer.
const quotes = "*_\"'`“”„‘’«»「」『』 \t\r\n"

// unwrap returns an answer without quotation marks and emphasis, and with the usual forms of signs and digits. Of an answer in a code
// fence it removes only the fence, because the characters of code matter.
func unwrap(s string) string {
	s = strings.TrimSpace(s)
	if m := codeFence().FindStringSubmatch(s); m != nil {
		return strings.TrimSpace(m[1])
	}
	if m := boxed().FindStringSubmatch(s); m != nil {
		s = m[1]
	}
	s = strings.Map(usualForm, s)
	if !strings.Contains(s, "\n") { // the marks around list items stay
		s = strings.Trim(s, quotes)
		s = strings.NewReplacer("**", "", "__ ", " ").Replace(s)
	}
	return s
}

// usualForm maps typographic forms of characters to the usual ones.
func usualForm(r rune) rune {
	switch {
	case r >= '！' && r <= '～': // full width
		return r - '！' + '!'
	case r == '−' || r == '‐' || r == '‑':
		return '-'
	case r == '’' || r == '‘':
		return '\''
	case r == '\u00a0' || r == '\u202f' || r == '\u2009':
		return ' '
	}
	for _, zero := range "٠۰०" {
		if r >= zero && r <= zero+9 {
			return r - zero + '0'
		}
	}
	return r
}

// The words around an answer. The group is the answer.
var introductions = []func() *regexp.Regexp{
	text.Pattern(`(?is)^(?:the )?(?:final |correct |right )?(?:answer|result|solution)(?:\W{0,3}\bis\b\W{0,3}|\W{0,3}[:=])\s*(.+)$`),
	text.Pattern(`(?is)^(?:so |thus,? |therefore,? |hence,? )?(?:(?:the|this|that|it|they|my|our|its|he|she|we)\b[^.!?;,:\n]{0,60}?) (?:is|was|are|were|equals|will be|has)\b:? +(.+)$`),
	text.Pattern(`(?is)^(?:it's|that's|i (?:think|believe)(?: that)?) +(.+)$`),
	text.Pattern(`(?is)^(.+?) is the (?:final |correct |right )?(?:answer|result|solution)\.?$`),
	text.Pattern(`(?i)^(?:in|on|at|to|from|by|for|of|about|around|approximately|approx\.?|roughly|~|≈) *(.+)$`),
	text.Pattern(`^[A-Za-z]\w{0,20} *= *([^=].*)$`),
	text.Pattern(`^([\d.,]+) \([a-z -]+\)$`),
}

// statements returns the texts that an answer may state, each without an introduction such as "The answer is".
func statements(answer string) (all []string) {
	const depth = 3 // introductions before one text
	rest := []string{answer}
	for range depth {
		var next []string
		for _, s := range rest {
			for _, intro := range introductions {
				if m := intro().FindStringSubmatch(s); m != nil {
					next = append(next, strings.TrimSpace(m[1]))
				}
			}
		}
		all, rest = append(all, next...), next
	}
	return all
}

// sameVerdict reports whether an answer begins with the target yes or no, and gives a reason.
func sameVerdict(target, answer string) bool {
	verdicts := map[string]string{"yes": "yes", "true": "yes", "no": "no", "false": "no"}
	want := verdicts[target]
	if want == "" {
		return false
	}
	end := strings.IndexFunc(answer, func(r rune) bool { return !unicode.IsLetter(r) })
	if end < 0 {
		end = len(answer)
	}
	if verdicts[strings.ToLower(answer[:end])] != want {
		return false
	}
	rest := answer[end:]
	return rest == "" || strings.ContainsRune(",.;:!-", rune(rest[0])) || reason().MatchString(rest)
}

// reason matches the rest of a sentence such as "Yes it does".
var reason = text.Pattern(`(?i)^ (?:it|they|he|she|that|this|you|we|i)\b`)

var option = text.Pattern(`^(?i:(?:option|choice|answer) )?\(?([A-Za-z])[).]?$`)

// isOption reports whether target and answer are the same option letter, such as B and "(b)".
func isOption(target, answer string) bool {
	want, got := option().FindStringSubmatch(target), option().FindStringSubmatch(answer)
	return want != nil && got != nil && strings.EqualFold(want[1], got[1])
}

var (
	// identifier matches one word with an inner capital, or with digits and letters.
	identifier = text.Pattern(`^[\w.-]*(?:[a-z][A-Z]|[A-Za-z]-?\.?\d|\d[A-Za-z])[\w.-]*$`)
	// leadingZero matches a number with a leading zero, such as a postcode.
	leadingZero = text.Pattern(`^0\d+$`)
	optionFlag  = text.Pattern(`(?:^|\s)--?[A-Za-z]`)
	ordinal     = text.Pattern(`^\d+(?:st|nd|rd|th)$`)
)

// isCode reports whether a target is an identifier, a path, a command or code.
func isCode(s string) bool {
	if leadingZero().MatchString(s) {
		return true
	}
	_, isNumber := parseQuantity(s)
	_, isDate := parseDate(s)
	if isNumber || isDate || ordinal().MatchString(s) {
		return false
	}
	if strings.ContainsAny(s, "\n_{}[]<>=;\\|@#") || optionFlag().MatchString(s) {
		return true
	}
	isWord := len(strings.Fields(s)) == 1
	isPath := strings.ContainsAny(s, "/()") && len(s) > 3
	return isWord && (isPath || identifier().MatchString(s))
}

// sameJSON compares JSON objects and lists by value. ok is false if both must be compared as texts: the target is neither, or it is a
// list and the answer is not JSON.
func sameJSON(target, answer string) (same, ok bool) {
	if target[0] != '{' && target[0] != '[' {
		return false, false
	}
	want, ok := decodeJSON(target)
	if !ok {
		return false, false
	}
	got, ok := decodeJSON(answer)
	if !ok {
		return false, target[0] == '{'
	}
	return sameValue(want, got), true
}

// decodeJSON decodes a JSON value, numbers as json.Number: a float64 would change the last digits of a long id.
func decodeJSON(s string) (v any, ok bool) {
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	ok = json.Valid([]byte(s)) && dec.Decode(&v) == nil
	return v, ok
}

// sameValue compares decoded JSON values.
func sameValue(want, got any) bool {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		return ok && maps.EqualFunc(want, got, sameValue)
	case []any:
		got, ok := got.([]any)
		return ok && slices.EqualFunc(want, got, sameValue)
	case json.Number:
		got, ok := got.(json.Number)
		return ok && sameJSONNumber(want, got)
	}
	return want == got
}

// sameJSONNumber compares numbers by value, but whole numbers that a float64 cannot hold by their digits.
func sameJSONNumber(want, got json.Number) bool {
	x, errX := want.Float64()
	y, errY := got.Float64()
	isLong := math.Abs(x) >= 1<<53 && !strings.ContainsAny(string(want+got), ".eE")
	return want == got || x == y && !isLong && errX == nil && errY == nil
}

var (
	itemMark = text.Pattern(`^(?:[-*•] |\d+[.)] )`)
	lastAnd  = text.Pattern(`(?:^|\s)(?:and|und|y|et|e|&)\s+`)
)

// items returns the entries of a list. A text that is not a list is its own only entry.
func items(s string) []string {
	v, _ := decodeJSON(s)
	if list, isList := v.([]any); isList {
		var all []string
		for _, v := range list {
			text, isText := v.(string)
			if !isText {
				raw, _ := json.Marshal(v)
				text = string(raw)
			}
			all = append(all, text)
		}
		return all
	}
	s = strings.TrimRight(s, ".。 ")
	if _, isNumber := parseQuantity(s); isNumber {
		return []string{s}
	}
	if _, isDate := parseDate(s); isDate {
		return []string{s}
	}
	s = lastAnd().ReplaceAllString(s, ", ")
	var all []string
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(",;、，\n", r) }) {
		item = strings.Trim(itemMark().ReplaceAllString(strings.TrimSpace(item), ""), quotes)
		if item != "" {
			all = append(all, item)
		}
	}
	return all
}

// sameList compares lists, in order unless the question says otherwise. Its result ok is false if the target is not a list.
func (c comparison) sameList(target, answer string) (same, ok bool) {
	hasListMarks := strings.HasPrefix(target, "[") || strings.ContainsAny(target, ",\n")
	if isCode(target) && !hasListMarks {
		return false, false
	}
	want, got := items(target), items(answer)
	if len(want) < 2 {
		return false, false
	}
	if len(want) != len(got) {
		return false, true
	}
	if !c.anyOrder {
		return slices.EqualFunc(want, got, c.sameItem), true
	}
	for _, w := range want {
		i := slices.IndexFunc(got, func(g string) bool { return c.sameItem(w, g) })
		if i < 0 {
			return false, true
		}
		got = slices.Delete(got, i, i+1)
	}
	return true, true
}

// articles are the words before a noun that do not change the answer.
var articles = text.Set("the a an der die das den dem ein eine el la los las le les il lo un una une")

// plainWords returns the words of a text in lower case, without accents, leading articles and punctuation.
func plainWords(s string) string {
	s = accents.Replace(strings.ToLower(s))
	inWord := func(r rune) bool {
		isName := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
		return isName || strings.ContainsRune("'.+#%$€£/", r)
	}
	var words []string
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return !inWord(r) }) {
		w = strings.Trim(w, "'/")
		if !strings.ContainsFunc(w, unicode.IsDigit) {
			w = strings.ReplaceAll(w, ".", "") // U.S.A.
		}
		w = strings.TrimRight(w, ".")
		if w != "" {
			words = append(words, w)
		}
	}
	for len(words) > 1 && articles[words[0]] {
		words = words[1:]
	}
	return strings.Join(words, " ")
}

// accents maps Latin letters with accents to those without, in pairs.
var accents = strings.NewReplacer(
	"à", "a", "á", "a", "â", "a", "ã", "a", "ä", "a", "å", "a", "ā", "a", "ă", "a", "ą", "a", "ç", "c", "ć", "c", "č", "c", "ď", "d", "đ", "d", "è", "e", "é", "e", "ê", "e", "ë", "e",
	"ē", "e", "ė", "e", "ę", "e", "ě", "e", "ğ", "g", "ì", "i", "í", "i", "î", "i", "ï", "i", "ī", "i", "ı", "i", "ł", "l", "ñ", "n", "ń", "n", "ň", "n", "ò", "o", "ó", "o", "ô", "o",
	"õ", "o", "ö", "o", "ø", "o", "ő", "o", "ř", "r", "ś", "s", "š", "s", "ş", "s", "ș", "s", "ß", "ss", "ť", "t", "ț", "t", "ù", "u", "ú", "u", "û", "u", "ü", "u", "ū", "u", "ů", "u",
	"ű", "u", "ý", "y", "ÿ", "y", "ź", "z", "ż", "z", "ž", "z", "æ", "ae", "œ", "oe", "\u0300", "", "\u0301", "", "\u0302", "", "\u0303", "", "\u0308", "",
)

var (
	placesText  = text.Pattern(`(?i)\b(\d|one|two|three|four|five|six)[ -]*(?:decimal|digits? after)`)
	nearestText = text.Pattern(`(?i)\bnearest (whole|integer|number|dollar|euro|cent|tenth|hundredth|thousandth)|\bround(?:ed)? (?:up |down |off )?to (?:a|an|the) (whole|integer)`)
)

// roundedPlaces returns the number of decimal places to which a question asks to round, or -1 if it does not.
func roundedPlaces(question string) int {
	if m := placesText().FindStringSubmatch(question); m != nil {
		if i := slices.Index([]string{"", "one", "two", "three", "four", "five", "six"}, strings.ToLower(m[1])); i > 0 {
			return i
		}
		return int(m[1][0] - '0')
	}
	if m := nearestText().FindStringSubmatch(question); m != nil {
		switch strings.ToLower(m[1]) {
		case "tenth":
			return 1
		case "cent", "hundredth":
			return 2
		case "thousandth":
			return 3
		}
		return 0 // to a whole number
	}
	return -1
}

// dateLayouts are the forms of days and of times of day. A day such as 03/05/2024 has none, because countries read it in two ways.
var dateLayouts = []string{"2006-1-2", "2006/1/2", "2.1.2006", "2 January 2006", "2 Jan 2006", "January 2 2006", "Jan 2 2006", "15:04", "3:04pm", "3pm"}

// dateMarks are the parts of dates that say nothing.
var dateMarks = text.Pattern(`[,.]$|,|([0-9])(?:st|nd|rd|th)\b| of\b| ([ap]m)$`)

// parseDate parses a day, or a time of day, which is in the year 0.
func parseDate(s string) (time.Time, bool) {
	s = dateMarks().ReplaceAllString(strings.ToLower(s), "$1$2")
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// quantity is a number with a unit.
type quantity struct {
	number *big.Rat
	unit   string // "" without one
}

var (
	// The groups of numberText are: 1 sign, 2 currency, 3 sign, 4 digits, 5 exponent, 6 denominator, 7 unit.
	numberText = text.Pattern(`^([-+]?)\s*([$€£¥]?)\s*([-+]?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[ ']\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?:[eE]([-+]?\d{1,4}))?(?: ?/ ?(\d+))?\s*([\p{L}°%$€£¥/²³^ ]*)\.?$`)
	// unitNames maps symbols to the names of their units, without the s at their ends: that of Celsius is removed like a plural.
	unitNames = map[string]string{
		"$": "dollar", "usd": "dollar", "€": "euro", "eur": "euro", "£": "gbp", "%": "percent",
		"km": "kilometer", "m": "meter", "cm": "centimeter", "kg": "kilogram", "g": "gram", "h": "hour", "min": "minute", "s": "second",
		"°c": "degrees celsiu", "°f": "degrees fahrenheit",
	}
)

// maxNumber bounds the length of a number in bytes.
const maxNumber = 200

// parseQuantity parses a number in digits, with or without a unit.
func parseQuantity(s string) (q quantity, ok bool) {
	m := numberText().FindStringSubmatch(s)
	if m == nil || len(s) > maxNumber || m[2] != "" && m[7] != "" { // two units
		return q, false
	}
	digits := strings.TrimSuffix(strings.NewReplacer(",", "", " ", "", "'", "").Replace(m[4]), ".")
	if m[5] != "" {
		digits += "e" + m[5]
	}
	q.number, ok = new(big.Rat).SetString(digits)
	if !ok {
		return q, false
	}
	if m[6] != "" {
		denominator, _ := new(big.Rat).SetString(m[6])
		if denominator.Sign() == 0 {
			return q, false
		}
		q.number.Quo(q.number, denominator)
	}
	if m[1] == "-" || m[3] == "-" {
		q.number.Neg(q.number)
	}
	q.unit = strings.TrimSuffix(strings.ToLower(m[2]+strings.TrimSpace(m[7])), "s")
	q.unit = cmp.Or(unitNames[q.unit], q.unit)
	return q, true
}

func (c comparison) sameQuantity(want, got quantity) bool {
	isSameUnit := want.unit == got.unit || want.unit == "" || got.unit == ""
	return isSameUnit && c.sameNumber(want.number, got.number)
}

func (c comparison) sameNumber(want, got *big.Rat) bool {
	return want.Cmp(got) == 0 || c.places >= 0 && round(want, c.places) == round(got, c.places)
}

// round returns a number in decimal form, rounded half away from zero.
func round(r *big.Rat, places int) string { return r.FloatString(places) }

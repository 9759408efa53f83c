package outcome

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"debrief/playbook/text"
)

// quantity is a number with a unit.
type quantity struct {
	number    *big.Rat // as written
	value     *big.Rat // in the base unit of its dimension
	dimension string   // "" without a unit
	unit      string   // identifies the unit within its dimension: its factor, or the word for a thing
}

// units maps the names of units to the dimension of the unit and to its factor to the base unit. The lines are the dimension, the
// factor and the names. A unit that is compared only with itself, such as miles, is its own dimension.
var units = func() map[string]struct{ dimension, factor string } {
	all := map[string]struct{ dimension, factor string }{}
	for _, line := range []string{
		"length 1 m meter meters metre metres", "length 1000 km kilometer kilometers kilometre kilometres", "length 1/100 cm centimeter centimeters centimetre centimetres",
		"length 1/1000 mm millimeter millimeters", "miles 1 mi mile miles", "feet 1 ft foot feet", "inches 1 inch inches",
		"mass 1 g gram grams", "mass 1000 kg kilogram kilograms kilo kilos", "mass 1/1000 mg milligram milligrams", "mass 1000000 t ton tons tonne tonnes", "pounds 1 lb lbs",
		"time 1 s sec second seconds", "time 60 min mins minute minutes", "time 3600 h hr hrs hour hours", "time 86400 day days", "time 604800 week weeks", "months 1 month months", "years 1 year years",
		"volume 1 l liter liters litre litres", "volume 1/1000 ml milliliter milliliters",
		"percent 1/100 % percent pct prozent", "dollars 1 $ usd dollar dollars us$", "euros 1 € eur euro euros", "sterling 1 £ gbp", "yen 1 ¥ jpy yen",
		"celsius 1 °c celsius degrees_celsius", "fahrenheit 1 °f fahrenheit degrees_fahrenheit", "degrees 1 ° degree degrees",
		"data 1 b byte bytes", "data 1000 kb", "data 1000000 mb", "data 1000000000 gb",
	} {
		f := strings.Fields(line)
		for _, name := range f[2:] {
			all[name] = struct{ dimension, factor string }{f[0], f[1]}
		}
	}
	return all
}()

var (
	// The groups of numberText are: 1 sign, 2 currency, 3 sign, 4 digits, 5 and 6 the fraction of a mixed number such as 1 1/2, 7 exponent after e,
	// 8 exponent after ×10, 9 denominator, 10 rest.
	numberText = text.Pattern(`^([-+]?)\s*([$€£¥]?)\s*([-+]?)(\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d{1,3}(?:[ ']\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?: +(\d+) ?/ ?(\d+))?(?:[eE]([-+]?\d{1,4})| ?[x×*·] ?10\^?([-+]?\d{1,3}))?(?: ?/ ?(\d+))?(.*)$`)
	multiplier = map[string]int64{"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12, "mio": 1e6, "bn": 1e9}
	vulgar     = strings.NewReplacer("½", " 1/2", "¼", " 1/4", "¾", " 3/4", "⅓", " 1/3", "⅔", " 2/3")
	unitText   = text.Pattern(`^[\p{L}°%$€£¥/²³^]+(?: [\p{L}°]+)?$`)
)

// maxNumber bounds the length of a number in bytes.
const maxNumber = 200

// parseQuantity parses a number in digits or words, with or without a unit.
func parseQuantity(s string) (q quantity, ok bool) {
	s = strings.TrimSpace(vulgar.Replace(s))
	if len(s) > maxNumber {
		return q, false
	}
	if n, rest, ok := numberWord(s); ok {
		q.number = new(big.Rat).SetInt64(n)
		return q.withUnit(rest)
	}
	m := numberText().FindStringSubmatch(s)
	if m == nil {
		return q, false
	}
	digits := strings.NewReplacer(",", "", " ", "", "'", "").Replace(m[4])
	digits = strings.TrimSuffix(digits, ".")
	if strings.HasPrefix(digits, ".") {
		digits = "0" + digits
	}
	if exponent := m[7] + m[8]; exponent != "" {
		digits += "e" + exponent
	}
	q.number, ok = new(big.Rat).SetString(digits)
	if !ok {
		return q, false
	}
	if m[6] != "" { // a mixed number
		fraction, ok := new(big.Rat).SetString(m[5] + "/" + m[6])
		if !ok || !q.number.IsInt() { // ok is false for the denominator 0
			return q, false
		}
		q.number.Add(q.number, fraction)
	}
	if m[9] != "" {
		denominator, _ := new(big.Rat).SetString(m[9])
		if denominator.Sign() == 0 {
			return q, false
		}
		q.number.Quo(q.number, denominator)
	}
	if m[1] == "-" || m[3] == "-" {
		q.number.Neg(q.number)
	}
	currency := m[2]
	if currency == "" {
		return q.withUnit(m[10])
	}
	rest := strings.TrimRight(strings.TrimSpace(m[10]), ".")
	if rest != "" && multiplier[strings.ToLower(rest)] == 0 { // it has a second unit
		return q, false
	}
	return q.withUnit(rest + " " + currency)
}

// withUnit returns the quantity with the unit in a text, after a word such as "million". A word without a known unit counts
// things, as in "3 apples".
func (q quantity) withUnit(rest string) (quantity, bool) {
	rest = strings.TrimRight(strings.TrimSpace(rest), ".")
	if word, after, _ := strings.Cut(rest, " "); multiplier[strings.ToLower(word)] > 0 {
		q.number.Mul(q.number, new(big.Rat).SetInt64(multiplier[strings.ToLower(word)]))
		rest = strings.TrimSpace(after)
	}
	q.value = q.number
	if rest == "" {
		return q, true
	}
	if !unitText().MatchString(rest) {
		return q, false
	}
	name := strings.ReplaceAll(strings.ToLower(rest), " ", "_")
	u, known := units[name]
	if !known {
		if len(name) < 3 { // too short for a word
			return q, false
		}
		q.dimension, q.unit = "things "+name, name
		return q, true
	}
	factor, _ := new(big.Rat).SetString(u.factor)
	q.dimension, q.unit = u.dimension, u.factor
	q.value = new(big.Rat).Mul(q.number, factor)
	return q, true
}

var (
	small = strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen")
	tens  = strings.Fields("twenty thirty forty fifty sixty seventy eighty ninety")
)

// numberWord parses a number below 100 in words. The rest is the text after it.
func numberWord(s string) (n int64, rest string, ok bool) {
	word, rest, _ := strings.Cut(strings.ToLower(s), " ")
	word = strings.TrimRight(word, ".")
	first, second, compound := strings.Cut(word, "-")
	for i, w := range small {
		if w == word {
			return int64(i), rest, true
		}
	}
	for i, w := range tens {
		if w != first {
			continue
		}
		n = int64(i+2) * 10
		if !compound {
			return n, rest, true
		}
		for j, w := range small[1:10] {
			if w == second {
				return n + int64(j) + 1, rest, true
			}
		}
	}
	return 0, "", false
}

// date is a day, without a year if that is 0, or a time of day.
type date struct {
	year, month, day int
	isClock          bool
	minute           int // of the day
}

// months maps the beginnings of the names of months in several languages to their numbers.
var months = func() map[string]int {
	all := map[string]int{}
	for i, names := range []string{
		"january jan januar janvier enero gennaio janeiro", "february feb februar février fevrier febrero febbraio fevereiro", "march mar märz maerz mars marzo março",
		"april apr avril abril aprile", "may mai mayo maggio maio", "june jun juni juin junio giugno junho", "july jul juli juillet julio luglio julho",
		"august aug août aout agosto", "september sep sept septembre septiembre settembre setembro", "october oct oktober okt octobre octubre ottobre outubro",
		"november nov novembre noviembre novembro", "december dec dezember dez décembre decembre diciembre dicembre dezembro",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = i + 1
		}
	}
	return all
}()

var (
	isoDate    = text.Pattern(`^(\d{4})[-/](\d{1,2})[-/](\d{1,2})$`)
	dottedDate = text.Pattern(`^(\d{1,2})\.(\d{1,2})\.(\d{4})$`)
	slashDate  = text.Pattern(`^(\d{1,2})/(\d{1,2})/(\d{4})$`)
	dayFirst   = text.Pattern(`^(\d{1,2})(?:st|nd|rd|th|\.)? (?:of |de )?(\p{L}+)\.?,?(?: (?:de )?(\d{4}))?$`)
	monthFirst = text.Pattern(`^(\p{L}+)\.? (\d{1,2})(?:st|nd|rd|th)?(?:,? (\d{4}))?$`)
	clockTime  = text.Pattern(`^(\d{1,2})(?::(\d{2}))?(?::00)? ?([ap]\.?m)?\.?$`)
)

// parseDate parses a day or a time of day. It returns false for a day such as 03/05/2024, because countries read it in two ways.
func parseDate(s string) (d date, ok bool) {
	s = strings.ToLower(strings.TrimRight(strings.TrimSpace(s), ".,"))
	number := func(t string) int { n, _ := strconv.Atoi(t); return n }
	switch {
	case isoDate().MatchString(s):
		m := isoDate().FindStringSubmatch(s)
		d = date{year: number(m[1]), month: number(m[2]), day: number(m[3])}
	case dottedDate().MatchString(s):
		m := dottedDate().FindStringSubmatch(s)
		d = date{year: number(m[3]), month: number(m[2]), day: number(m[1])}
	case slashDate().MatchString(s):
		m := slashDate().FindStringSubmatch(s)
		month, day := number(m[1]), number(m[2])
		switch {
		case month > 12: // the day comes first
			month, day = day, month
		case day <= 12 && month != day: // ambiguous
			return date{}, false
		}
		d = date{year: number(m[3]), month: month, day: day}
	case monthOf(dayFirst(), s, 2) > 0:
		m := dayFirst().FindStringSubmatch(s)
		d = date{year: number(m[3]), month: months[m[2]], day: number(m[1])}
	case monthOf(monthFirst(), s, 1) > 0:
		m := monthFirst().FindStringSubmatch(s)
		d = date{year: number(m[3]), month: months[m[1]], day: number(m[2])}
	default:
		return parseClock(s)
	}
	return d, d.month >= 1 && d.month <= 12 && d.day >= 1 && d.day <= 31
}

// monthOf returns the month that a group of a pattern names, or 0 if the pattern does not match.
func monthOf(form *regexp.Regexp, s string, group int) int {
	if m := form.FindStringSubmatch(s); m != nil {
		return months[m[group]]
	}
	return 0
}

// parseClock parses a time of day such as 14:30 or 2 pm.
func parseClock(s string) (d date, ok bool) {
	m := clockTime().FindStringSubmatch(s)
	if m == nil || m[2] == "" && m[3] == "" {
		return date{}, false
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi(m[2])
	if m[3] != "" {
		if hour < 1 || hour > 12 {
			return date{}, false
		}
		hour %= 12
		if m[3][0] == 'p' {
			hour += 12
		}
	}
	return date{isClock: true, minute: hour*60 + minute}, hour < 24 && minute < 60
}

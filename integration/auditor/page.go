package auditor

import (
	"math"
	"time"
)

// Expected are the numbers that a place of a page must show, in their order.
type Expected struct {
	Values []float64
	// Slack is how much a value may differ beyond its rounding.
	Slack float64
	// Among permits any of the values, any number of times: for a sentence that does not always have the same numbers, such as that about
	// the next decision on a bullet.
	Among bool
}

// Page has the numbers of a page by their place: the heading, the row and the column, or the text with # for each number. The parts are
// separated by " | ". A place that a page has several times has several entries, in the order of the page.
type Page map[string][]Expected

func (p Page) add(place string, values ...float64) {
	if len(values) > 0 {
		p[place] = append(p[place], Expected{Values: values})
	}
}

func ints(values ...int) (all []float64) {
	for _, v := range values {
		all = append(all, float64(v))
	}
	return all
}

// nonzero adds a number unless it is 0.
func (p Page) nonzero(place string, value float64) {
	if value != 0 {
		p.add(place, value)
	}
}

// counted adds a number of things, such as "Waiting | # bullets in quarantine", unless it is 0.
func (p Page) counted(before string, n int, word, after string) {
	if n > 0 {
		p.add(before+"# "+plural(n, word)+after, float64(n))
	}
}

// plural returns a word in the plural unless the number is one.
func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// share returns the numbers of a share: in percent, the limits of its 95 % interval (Wilson 1927), and n. With n = 0 there are none.
func share(right, n int) []float64 {
	if n == 0 {
		return nil
	}
	const z = 1.959964
	k := float64(n)
	rate := float64(right) / k
	centre, half := (rate+z*z/2/k)/(1+z*z/k), z/(1+z*z/k)*math.Sqrt(rate*(1-rate)/k+z*z/4/k/k)
	return []float64{100 * rate, 100 * max(0, centre-half), 100 * min(1, centre+half), k}
}

// period returns the numbers of a duration in seconds: "12.3 s", "2 min 5 s", "1 h 5 min".
func period(seconds float64) []float64 {
	if seconds < 120 {
		return []float64{seconds}
	}
	inSmallerUnit := math.Round(seconds)
	if inSmallerUnit >= 3600 {
		inSmallerUnit = math.Round(seconds / 60)
	}
	if math.Mod(inSmallerUnit, 60) == 0 {
		return []float64{inSmallerUnit / 60}
	}
	return []float64{math.Floor(inSmallerUnit / 60), math.Mod(inSmallerUnit, 60)}
}

// inUnit returns a duration in the unit in which Go formats it.
func inUnit(d time.Duration) float64 {
	switch {
	case d < time.Microsecond:
		return float64(d)
	case d < time.Millisecond:
		return float64(d) / 1e3
	case d < time.Second:
		return float64(d) / 1e6
	}
	return d.Seconds()
}

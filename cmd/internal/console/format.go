package console

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// percent formats a share: 0.5 is "50.0 %".
func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + "\u00a0%" }

// points formats a difference of shares in percentage points, with its sign.
func points(share float64) string {
	s := fmt.Sprintf("%+.1f", 100*share)
	if s == "-0.0" {
		s = "+0.0"
	}
	return strings.Replace(s, "-", "\u2212", 1)
}

// thousands groups digits in threes: 1 234 567.
func thousands(n int) string {
	s := strconv.Itoa(n)
	sign := ""
	if s[0] == '-' {
		sign, s = "\u2212", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

// plural formats a number of things: "1 bullet", "2 bullets".
func plural(n int, what string) string {
	if n == 1 {
		return "1\u00a0" + what
	}
	return thousands(n) + "\u00a0" + what + "s"
}

// seconds formats a duration in seconds: "12.3 s", "2 min 5 s", "20 min", "1 h 5 min".
func seconds(s float64) string {
	if s < 120 {
		return strconv.FormatFloat(s, 'f', 1, 64) + "\u00a0s"
	}
	n := int(math.Round(s))
	large, small := "min", "s"
	if n >= 3600 {
		n = int(math.Round(s / 60))
		large, small = "h", "min"
	}
	text := strconv.Itoa(n/60) + "\u00a0" + large
	if n%60 > 0 {
		text += " " + strconv.Itoa(n%60) + "\u00a0" + small
	}
	return text
}

// ago formats the time between then and now roughly: "just now", "5 min ago", "3 d ago". Later times are "in 5 min".
func ago(then, now time.Time) string {
	d := now.Sub(then)
	form := "%s ago"
	if d < 0 {
		d, form = -d, "in %s"
	}
	switch {
	case d < 10*time.Second:
		return "just now"
	case d < 2*time.Minute:
		return fmt.Sprintf(form, strconv.Itoa(int(d.Seconds()))+"\u00a0s")
	case d < 2*time.Hour:
		return fmt.Sprintf(form, strconv.Itoa(int(d.Minutes()))+"\u00a0min")
	case d < 48*time.Hour:
		return fmt.Sprintf(form, strconv.Itoa(int(d.Hours()))+"\u00a0h")
	}
	return fmt.Sprintf(form, thousands(int(d.Hours()/24))+"\u00a0d")
}

// pvalue formats a probability with four decimals.
func pvalue(p float64) string {
	if p < 0.0001 {
		return "below 0.0001"
	}
	return strconv.FormatFloat(p, 'f', 4, 64)
}

// cost formats an amount in dollars, "–" for none.
func cost(dollars float64) string {
	if dollars == 0 {
		return "–"
	}
	if dollars < 0.1 {
		return "$" + strconv.FormatFloat(dollars, 'f', 4, 64)
	}
	return "$" + strconv.FormatFloat(dollars, 'f', 2, 64)
}

// took formats a duration with three digits, "–" for none.
func took(d time.Duration) string {
	if d == 0 {
		return "–"
	}
	precision := time.Duration(1)
	for d/precision >= 1000 {
		precision *= 10
	}
	return unitStart.ReplaceAllString(d.Round(precision).String(), "$1\u00a0$2")
}

// unitStart matches the last digit of a number and the first letter of its unit.
var unitStart = regexp.MustCompile(`(\d)([a-zµ])`)

// size formats a number of bytes: "18.6 kB".
func size(n uint64) string {
	if n < 1000 {
		return strconv.FormatUint(n, 10) + "\u00a0B"
	}
	v := float64(n) / 1000
	units := []string{"kB", "MB", "GB", "TB"}
	for v >= 999.95 && len(units) > 1 { // 999.95 would become 1000.0
		v /= 1000
		units = units[1:]
	}
	return strconv.FormatFloat(v, 'f', 1, 64) + "\u00a0" + units[0]
}

func capital(word string) string {
	if word == "" {
		return ""
	}
	return strings.ToUpper(word[:1]) + word[1:]
}

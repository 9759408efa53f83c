package console

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// baseCSS is the style sheet of all pages: colours of both themes as variables, text, tables and charts.
//
//go:embed base.css
var baseCSS string

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

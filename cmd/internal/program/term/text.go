package term

import "fmt"

// Plural returns a number with its noun, which forms its plural with s.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OneLine returns the beginning of text on one line, with at most limit characters. The limit must be at least 1.
func OneLine(text string, limit int) string {
	r := []rune(Line(text))
	if len(r) > limit {
		return string(r[:limit-1]) + "…"
	}
	return string(r)
}

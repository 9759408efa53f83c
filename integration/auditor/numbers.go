package auditor

import (
	"regexp"
	"strconv"
	"strings"
)

// Number is a number as a page shows it.
type Number struct {
	Value    float64
	Decimals int
}

var numberText = regexp.MustCompile(`[+−-]?[0-9][0-9\x{202f}]*(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?`)

// ParseNumbers returns the numbers of a text, and the text with # in place of each.
func ParseNumbers(text string) (all []Number, shape string) {
	var out strings.Builder
	end := 0
	for _, at := range numberText.FindAllStringIndex(text, -1) {
		if text[at[0]] == '-' && at[0] > 0 && isWord(text[at[0]-1]) { // a hyphen
			at[0]++
		}
		s := text[at[0]:at[1]]
		out.WriteString(text[end:at[0]] + "#")
		end = at[1]
		plain := strings.NewReplacer("\u202f", "", "−", "-", "+", "").Replace(s)
		if strings.ContainsAny(s, "e") { // such as 1e+21, where the sign belongs to the exponent
			plain = s
		}
		v, _ := strconv.ParseFloat(plain, 64) // the expression matches numbers only
		_, fraction, _ := strings.Cut(plain, ".")
		all = append(all, Number{v, len(fraction)})
	}
	return all, strings.ReplaceAll(out.String()+text[end:], "\u00a0", " ")
}

func isWord(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// valuesOf returns the values of the numbers of a text.
func valuesOf(text string) (all []float64) {
	numbers, _ := ParseNumbers(text)
	for _, n := range numbers {
		all = append(all, n.Value)
	}
	return all
}

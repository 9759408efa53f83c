package remedy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// An error often contains the number that the call needs: "total price is 375, but paid 299". The remedies here name it.

const (
	maxNumbers = 4   // numbers of an error
	maxLeaves  = 256 // numbers of an argument
)

var numberPattern = regexp.MustCompile(`\b\d+(?:\.\d+)?\b`)

// numbersOf returns the first numbers of an error. One digit is too little to be equal by more than chance.
func numbersOf(line string) []string {
	var found []string
	for _, n := range numberPattern.FindAllString(line, -1) {
		if len(n) > 1 && len(n) <= 15 && len(found) < maxNumbers {
			found = append(found, n)
		}
	}
	return found
}

var ordinals = [maxNumbers]string{"first", "second", "third", "fourth"}

// numberRemedies returns the remedies for the arguments that became equal to a number of the error, or whose numbers of
// one name then add up to it.
func numberRemedies(from, to *act) []remedy {
	before, after := from.decode().fields, to.decode().fields
	var found []remedy
	for _, name := range slices.Sorted(maps.Keys(after)) {
		v, ok := before[name]
		if !ok || len(from.message.numbers) == 0 || len(found) >= maxChanged {
			continue
		}
		olds, news := totals(v), totals(after[name])
		for i, n := range from.message.numbers {
			want, err := strconv.ParseFloat(n, 64)
			if err == nil && holdsTotal(news, want) && !holdsTotal(olds, want) {
				say := fmt.Sprintf("make `%s` %s the %s number in the error", quote(name, maxName), verb(after[name]), ordinals[i])
				found = append(found, remedy{key: fmt.Sprint("number ", i, " ", name), rank: rankHow, say: say})
				break
			}
		}
	}
	return found
}

// verb returns the verb between an argument and a number of the error.
func verb(v any) string {
	if _, ok := v.(json.Number); ok {
		return "equal"
	}
	return "add up to"
}

// totals returns the sum of the numbers of each name in a value. The sum of one number is the number.
func totals(v any) map[string]float64 {
	sums := map[string]float64{}
	left := maxLeaves
	var walk func(name string, v any)
	walk = func(name string, v any) {
		if left--; left < 0 {
			return
		}
		switch v := v.(type) {
		case json.Number:
			if f, err := v.Float64(); err == nil {
				sums[name] += f
			}
		case []any:
			for _, w := range v[:min(len(v), maxLeaves)] {
				walk(name, w)
			}
		case map[string]any:
			if len(v) > maxLeaves {
				return
			}
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(name+"."+key, v[key])
			}
		}
	}
	walk("", v)
	return sums
}

func holdsTotal(sums map[string]float64, want float64) bool {
	for _, s := range sums {
		if math.Abs(s-want) < 0.005 {
			return true
		}
	}
	return false
}

package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// rank orders the remedies of one error: a lower one says more about the cause.
type rank uint8

const (
	rankHow     rank = iota // how an argument differs: white space, type, a number that the error names
	rankSet                 // an argument or an option that is new or left out, the program, the folder
	rankForm                // the form of a new value
	rankValue               // a new value
	rankInstall             // an installation of the missing object, or a fixed package
	rankSame                // a call in between about the same object
	rankBetween             // a call in between
	rankRetry               // nothing: the error is temporary
	rankTrivial             // another value, or an edit: it teaches nothing that the text of the error does not show
)

// change is one difference between a failed act and a later act of the same name.
type change struct {
	rank    rank
	advice  string // imperative, clean; equal texts are one change
	general string // advice of the change that this one is a special case of
	word    string // the new value, or the name of the new argument: an error can name it
	isNew   bool   // the first call lacks the argument

	// These fields are set if the change is a call in between.
	call      string // its name
	shared    string // name of the argument that it has in common with the second call
	findsFile bool   // after an error about a missing file, the call looks for a file or writes one
	reads     bool   // the call only reads
}

const (
	maxCompared = 8  // compared arguments of a call
	maxValue    = 40 // bytes of a value that a lesson names
	maxWords    = 64 // compared words of a command
)

// compareActs returns the differences of the arguments of two acts of one name. A difference is a list of changes that describe the same
// thing, from the specific to the general one. related is false if the second act is not another attempt at the first: they share no
// argument, or their forms differ.
func compareActs(from, to *act) (differences [][]change, related bool) {
	a, b := &from.arguments, &to.arguments
	switch {
	case a.equal(b):
		return nil, true
	case !a.sameForm(b):
		return nil, false
	case a.fields != nil:
		return compareFields(a.fields, b.fields, &from.message)
	case a.words != nil:
		return compareCommands(a, b)
	}
	changes := compareTexts("", a.text, b.text)
	hasSpecific := len(changes) > 1
	return [][]change{changes}, hasSpecific || sameStart(a.text, b.text)
}

// compareFields returns the differences of two objects, at most maxCompared.
func compareFields(from, to map[string]any, m *message) (differences [][]change, related bool) {
	renamed := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if other := newName(name, from, to); other != "" {
			renamed[name] = true
			renamed[other] = true
			related = true
			differences = append(differences, []change{{rank: rankHow, advice: "give " + argument(other) + " in place of " + argument(name)}})
		}
	}
	all := maps.Clone(from)
	maps.Copy(all, to)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if renamed[name] {
			continue
		}
		v, isOld := from[name]
		w, isKept := to[name]
		switch {
		case isOld && isKept && reflect.DeepEqual(v, w):
			related = related || identifies(v)
		case !isOld:
			add := change{rank: rankSet, advice: "give " + argument(name), word: name, isNew: true}
			differences = append(differences, append(valueOf(add.advice, name, w), add))
		case !isKept:
			differences = append(differences, []change{{rank: rankSet, advice: "leave out " + argument(name)}})
		default:
			found := compareValues(name, v, w, m)
			isOnly := len(from) == 1 && len(to) == 1
			// If the calls have no other argument, and the new value is a text without letters, such as a date, then its new form is
			// enough for another attempt, although the calls have no value in common.
			newForm := isOnly && isNumeric(w) && found[0].rank == rankForm
			isAttempt := newForm || found[0].rank == rankHow || keepsFile(v, w)
			related = related || isAttempt
			differences = append(differences, found)
		}
	}
	return differences[:min(len(differences), maxCompared)], related
}

// argument returns the name of an argument for a lesson.
func argument(name string) string {
	if name == "" {
		return "the arguments"
	}
	return "`" + quote(name, maxName) + "`"
}

// newName returns the name that an argument has in the second call, with the same value, or "".
func newName(name string, from, to map[string]any) string {
	if _, ok := to[name]; ok || !identifies(from[name]) {
		return ""
	}
	for _, other := range slices.Sorted(maps.Keys(to)) {
		if _, ok := from[other]; !ok && reflect.DeepEqual(from[name], to[other]) {
			return other
		}
	}
	return ""
}

// compareValues returns the differences of an argument: at least the general one, which is the last.
func compareValues(name string, v, w any, m *message) []change {
	before, wasText := v.(string)
	after, isText := w.(string)
	if wasText && isText {
		return compareTexts(name, before, after)
	}
	general := change{rank: rankTrivial, advice: "change " + argument(name)}
	var found []change
	if how := howDiffers(argument(name), v, w, m); how != "" {
		found = append(found, change{rank: rankHow, advice: how, general: general.advice})
	}
	found = append(found, valueOf(general.advice, name, w)...)
	return append(found, general)
}

// howDiffers describes how a new value differs from the old one: by its type, or as a number. It returns "" if nothing is known.
func howDiffers(argument string, v, w any, m *message) string {
	if typeOf(v) != typeOf(w) {
		return "give " + argument + " as " + typeOf(w)
	}
	before, isNumber := v.(json.Number)
	after, _ := w.(json.Number) // of the same type
	if !isNumber {
		return ""
	}
	if i := slices.Index(numbersOf(m.line), string(after)); i >= 0 {
		return "make " + argument + " equal the " + ordinals[i] + " number in the error"
	}
	x, _ := before.Float64()
	y, _ := after.Float64()
	for _, unit := range units {
		switch {
		case x != 0 && x == y*unit:
			return fmt.Sprintf("divide %s by `%v`", argument, unit)
		case x != 0 && y == x*unit:
			return fmt.Sprintf("multiply %s by `%v`", argument, unit)
		}
	}
	return ""
}

// units are the usual factors between two units of one quantity: seconds, minutes and hours, grams and kilograms, cents, bytes.
var units = [...]float64{60, 100, 1000, 1024, 3600}

// ordinals name the numbers of an error.
var ordinals = [...]string{"first", "second", "third", "fourth"}

var numberPattern = regexp.MustCompile(`\b\d+(?:\.\d+)?\b`)

// numbersOf returns the first numbers of an error. It leaves out single digits, which are often equal by chance.
func numbersOf(line string) (found []string) {
	for _, n := range numberPattern.FindAllString(line, -1) {
		if len(n) > 1 && len(n) <= 15 && len(found) < len(ordinals) {
			found = append(found, n)
		}
	}
	return found
}

// typeOf returns the type of a decoded JSON value in words.
func typeOf(v any) string {
	switch v.(type) {
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "null"
}

// compareTexts returns the differences of two texts: at least the general one, which is the last. The name is that of the argument, or ""
// for all arguments of a call.
func compareTexts(name, s, t string) []change {
	argument := argument(name)
	general := change{rank: rankTrivial, advice: "change " + argument}
	how := func(advice string) []change {
		return []change{{rank: rankHow, advice: advice, general: general.advice}, general}
	}
	switch {
	case sameLines(s, t):
		return how("correct the white space at the start of lines in " + argument)
	case strings.Join(strings.Fields(s), "") == strings.Join(strings.Fields(t), ""):
		return how("correct the white space in " + argument)
	case strings.EqualFold(s, t):
		return how("correct upper and lower case in " + argument)
	case sameFile(s, t) && path.IsAbs(s) != path.IsAbs(t):
		if path.IsAbs(t) {
			return how("give " + argument + " as an absolute path")
		}
		return how("give " + argument + " as a relative path")
	}
	var found []change
	if after := form(t); after != "" && form(s) != after {
		found = append(found, change{rank: rankForm, advice: "give " + argument + " in the form `" + quote(after, maxName) + "`", general: general.advice})
	}
	if name != "" {
		found = append(found, valueOf(general.advice, name, t)...)
	}
	return append(found, general)
}

// valueOf returns the change "set the argument to this value" for a short value.
func valueOf(general, name string, v any) []change {
	s := valueText(v)
	if !valueForm.MatchString(s) {
		return nil
	}
	return []change{{rank: rankValue, advice: "set " + argument(name) + " to `" + s + "`", general: general, word: s}}
}

// valueText returns the text of a simple value, "" for others.
func valueText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return string(v)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// sameLines reports whether two texts differ only by the white space at the starts of lines.
func sameLines(s, t string) bool {
	withoutIndent := func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			b.WriteString(strings.TrimLeft(line, " \t"))
		}
		return b.String()
	}
	return withoutIndent(s) == withoutIndent(t)
}

func isPath(s string) bool { return s != "" && len(s) <= maxPath && !strings.ContainsAny(s, "\n ") }

// sameFile reports whether two texts can be paths of files with one name.
func sameFile(s, t string) bool { return isPath(s) && isPath(t) && path.Base(s) == path.Base(t) }

// keepsFile reports whether two values are paths of files with one name. At least one path has a folder.
func keepsFile(v, w any) bool {
	s, _ := v.(string)
	t, _ := w.(string)
	return sameFile(s, t) && strings.Contains(s+t, "/")
}

// isNumeric reports whether a value is a text without letters, such as a date.
func isNumeric(v any) bool {
	s, ok := v.(string)
	return ok && !strings.ContainsFunc(s, unicode.IsLetter)
}

var digitRuns = regexp.MustCompile(`[0-9]+`)

// fourLetters match a word that can be the name of a person.
var fourLetters = regexp.MustCompile(`\p{L}{4}`)

// form returns a short value with a placeholder for its digits. It returns "" for a long value, and for one without digits, with words,
// with white space or with a slash.
func form(s string) string {
	if len(s) > maxValue || !strings.ContainsAny(s, "0123456789") {
		return ""
	}
	if strings.ContainsAny(s, " \t\r\n/") || fourLetters.MatchString(s) {
		return ""
	}
	return digitRuns.ReplaceAllString(s, "<n>")
}

// sameStart reports whether two texts begin with the same line, as two attempts at one edit do.
func sameStart(s, t string) bool {
	s, _, _ = strings.Cut(s, "\n")
	t, _, _ = strings.Cut(t, "\n")
	return s == t
}

// compareCommands returns the differences of two commands of one program. related is false if both have operands, such as a script or a
// file, and none in common.
func compareCommands(from, to *arguments) (differences [][]change, related bool) {
	set := func(advice string) { differences = append(differences, []change{{rank: rankSet, advice: advice}}) }
	if from.program != to.program {
		set("use " + argument(to.program) + " in place of " + argument(from.program))
	}
	if from.dir != to.dir {
		set("run it in another folder")
	}
	options, operands := splitWords(from.words)
	newOptions, newOperands := splitWords(to.words)
	added, removed := missingFrom(options, newOptions), missingFrom(newOptions, options)
	if len(added) == 1 && len(removed) == 1 {
		set("give the option " + argument(added[0]) + " in place of " + argument(removed[0]))
	} else {
		for _, o := range added {
			set("add the option " + argument(o))
		}
		for _, o := range removed {
			set("leave out the option " + argument(o))
		}
	}
	sameInput := from.text == to.text
	if sameInput && slices.Equal(operands, newOperands) {
		return differences, true
	}
	related = len(operands) == 0 || len(newOperands) == 0
	for _, o := range operands {
		related = related || slices.ContainsFunc(newOperands, func(p string) bool { return o == p || keepsFile(o, p) })
	}
	if len(operands) == 1 && len(newOperands) == 1 {
		found := compareTexts("", operands[0], newOperands[0])
		return append(differences, found), related || found[0].rank == rankHow
	}
	return append(differences, []change{{rank: rankTrivial, advice: "change the arguments"}}), related
}

// missingFrom returns the words that a list lacks, at most maxCompared.
func missingFrom(list, words []string) (missing []string) {
	for _, w := range words {
		if !slices.Contains(list, w) {
			missing = addNew(missing, w, maxCompared)
		}
	}
	return missing
}

// splitWords separates the options of a command from its operands. The value of an option after "=" is left out.
func splitWords(words []string) (options, operands []string) {
	words = words[:min(len(words), maxWords)]
	for i, w := range words {
		if w == "--" {
			return options, append(operands, words[i+1:]...)
		}
		if len(w) < 2 || w[0] != '-' || strings.Trim(w, "-0123456789.") == "" {
			operands = append(operands, w)
			continue
		}
		name, _, _ := strings.Cut(w, "=")
		options = append(options, name)
	}
	return options, operands
}

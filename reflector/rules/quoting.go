package rules

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"debrief/events/shell"
	"debrief/playbook/text"
)

// The text of a tool can hold instructions of a stranger, so a lesson never copies the whole text. A lesson may quote names that the calls of
// the run used, values in a narrow form, and words of an error that are in the vocabulary below.

var (
	nameForm  = regexp.MustCompile(`^-{0,2}[A-Za-z0-9_.:<>#-]{1,48}$`)
	valueForm = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,40}$`)
	longDigit = regexp.MustCompile(`[0-9]{4}`)
	nameBreak = regexp.MustCompile(`[_.: -]+`)
)

// maxNameWords is the maximum number of words in a name. A longer one can be a sentence.
const maxNameWords = 6

// isName reports whether a lesson may hold s as the name of a tool, a command or an argument.
func isName(s string) bool {
	words := strings.Split(s, " ")
	limit := 2 // a tool and its operation
	if shell.Known(words[0]) {
		limit = 4
	}
	if len(words) > limit || len(nameBreak.Split(s, -1)) > maxNameWords {
		return false
	}
	return !slices.ContainsFunc(words, func(w string) bool { return !nameForm.MatchString(w) })
}

// namesOnly reports whether each part of an advice in backquotes is a name, see isName.
func namesOnly(advice string) bool {
	for i, part := range strings.Split(advice, "`") {
		if i%2 == 1 && !isName(part) {
			return false
		}
	}
	return true
}

// namesValue reports whether an error names a value that can be a rule, such as one of the allowed values. The value must have a letter,
// and at most three digits in succession: a number belongs to one object.
func namesValue(line, value string) bool {
	if !valueForm.MatchString(value) || longDigit.MatchString(value) || !strings.ContainsFunc(value, unicode.IsLetter) {
		return false
	}
	isEdge := func(r rune) bool { return !valueForm.MatchString(string(r)) }
	return slices.ContainsFunc(strings.FieldsFunc(line, isEdge), func(w string) bool { return strings.Trim(w, ".") == value })
}

// temporary matches the errors after which the same call can work.
var temporary = regexp.MustCompile(`(?i)time[d-]? ?out|temporar|connection|rate.?limit|too many requests|busy|unavailable|overloaded|\b(?:429|502|503|504)\b|reset by peer`)

// vocabulary has the words of an error that a lesson may quote. None of them is a value, an address or a person. Verbs that are mostly an
// order, such as "make" and "add", are left out.
var vocabulary = text.Set(`
	error errors failed failure fails exception invalid illegal unknown unsupported unexpected missing required mandatory wrong bad
	no not none nothing never only neither nor found such is are was were has have had been be being must should may can cannot can't could
	couldn't unable does do did doesn't didn't don't to the a an of in on at for with without by from as and or but than then if
	more less most least too many much few large small long short big high low between within outside after before above below over under
	value values field fields argument arguments parameter parameters property properties key keys type types text number numbers
	string strings integer integers float list array object boolean bool true false null empty blank absolute relative path paths file files
	directory folder name names id ids date dates time times day days format formats form like match matches line lines column character
	characters syntax indentation indent indented dedent unmatched unterminated unclosed quote quotes bracket brackets json schema
	permission permissions denied access unauthorized authorized forbidden authentication authenticated session expired timed out timeout
	connection refused reset closed temporarily temporary unavailable rate limit limits quota exceeded exceeds exceed busy overloaded
	exists exist already module modules named provides open package packages command commands library available allowed enough ready locked full rejected
	confirmed confirmation method order orders user users account item items price total amount amounts payment sum up paid flight flights
	seat seats balance status state code codes http request requests response server service client exit errno enoent eacces yet read it
	its this that these those one two first last same different equal positive negative zero range valid modulenotfounderror importerror
	typeerror valueerror keyerror indexerror attributeerror nameerror syntaxerror indentationerror filenotfounderror permissionerror
	externally managed environment externally-managed-environment bash sh unique duplicate conflict pending cancelled delivered processed shipped
	you your we there region country currency language version unit units page size offset index query url
	flag flags option options results result cart invoice page pages defined rule target made
	zip email phone book branch commit repository adds added given got want wants expected expects provided specified supported recognized`)

var (
	// placeholders match words that replaceVarying puts in place of values.
	placeholders = regexp.MustCompile(`^<(?:n|id|text|path|date|time)>$`)
	errorCode    = regexp.MustCompile(`^(?:[EWFC]|TS)?[0-9]{3,4}$`)
	sentenceEnd  = regexp.MustCompile(`[.;!?] `)
)

// minQuoted is the minimum number of words of a quoted part: fewer do not tell one error from another.
const minQuoted = 2

// quotable returns the part of the first sentence of an error that a lesson may quote: all words if each one is allowed, else the longest
// stretch of allowed words that shows an error. It returns "" without such a part. own has the names that the calls of the runs used, in
// lower case.
func quotable(line string, own map[string]bool) string {
	if end := sentenceEnd.FindStringIndex(line); end != nil {
		line = line[:end[0]+1]
	}
	words := strings.Fields(line)
	if !slices.ContainsFunc(words, func(w string) bool { return !allowed(w, own) }) {
		return strings.Join(words, " ")
	}
	var best []string
	start := 0
	for i := 0; i <= len(words); i++ {
		if i < len(words) && allowed(words[i], own) {
			continue
		}
		if stretch := words[start:i]; len(stretch) > len(best) && showsError(stretch) {
			best = stretch
		}
		start = i + 1
	}
	if len(best) < minQuoted {
		return ""
	}
	return strings.TrimRight(strings.Join(best, " "), ".,:;") + " …"
}

// errorSigns are words of the vocabulary that show an error.
var errorSigns = text.Set("unknown must locked rejected required unexpected not no wrong bad unsupported already unauthorized forbidden exceeded unavailable " +
	"expired full unmatched conflict duplicate enoent")

func showsError(words []string) bool {
	return text.NamesError(strings.Join(words, " ")) || slices.ContainsFunc(words, func(w string) bool {
		return errorSigns[strings.Trim(strings.ToLower(w), ".,:;!")] || errorCode.MatchString(strings.ToUpper(w))
	})
}

// allowed reports whether a word of an error may be quoted.
func allowed(word string, own map[string]bool) bool {
	word = strings.Trim(word, `.,:;!?()[]'"`+"`")
	if word == "" || placeholders.MatchString(word) || errorCode.MatchString(word) {
		return true
	}
	for part := range strings.FieldsFuncSeq(word, func(r rune) bool { return strings.ContainsRune(":,()=", r) }) {
		low := strings.ToLower(part)
		known := vocabulary[low] || vocabulary[strings.TrimSuffix(low, "(s)")] || own[low]
		if !known && !placeholders.MatchString(part) {
			return false
		}
	}
	return true
}

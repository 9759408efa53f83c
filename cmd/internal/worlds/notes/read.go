package notes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/worlds/world"
)

// meaning is the content of a note as the model reads it: concepts in the order of the text, and the amount in cents.
type meaning struct {
	concepts []string
	amount   int
	stated   string // account that the note itself states, or ""
}

func (m *meaning) has(id string) bool { return slices.Contains(m.concepts, id) }

// rule maps expenses that meet all conditions to an account.
type rule struct {
	concepts []string // sorted
	over     int      // minimum amount in cents, exclusive; 0 for no minimum
	override bool     // wins against all rules without override
	account  string
}

// fits reports whether all conditions of the rule are true.
func (r *rule) fits(m *meaning) bool {
	if r.over > 0 && m.amount <= r.over {
		return false
	}
	for _, c := range r.concepts {
		if !m.has(c) {
			return false
		}
	}
	return true
}

// specificity returns the number of conditions, and more for a rule that overrides.
func (r *rule) specificity() int {
	n := len(r.concepts)
	if r.over > 0 {
		n++
	}
	if r.override {
		n += 100
	}
	return n
}

// sameConditions reports whether both rules name the same concepts, both or none of them with an amount.
func (r *rule) sameConditions(o *rule) bool {
	return slices.Equal(r.concepts, o.concepts) && (r.over > 0) == (o.over > 0)
}

// covers reports whether r applies whenever o applies.
func (r *rule) covers(o *rule) bool {
	if r.over > 0 && (o.over == 0 || o.over < r.over) {
		return false
	}
	return !slices.ContainsFunc(r.concepts, func(c string) bool { return !slices.Contains(o.concepts, c) })
}

// find returns the concepts of a text in order, each once. The longest phrase wins.
func (v *vocabulary) find(text string) []string {
	w := words(text)
	for i := range w {
		if correct := v.typos[w[i]]; correct != "" {
			w[i] = correct
		}
	}
	var out []string
	for i := 0; i < len(w); {
		n := min(v.longest, len(w)-i)
		for ; n > 0; n-- {
			if id, ok := v.phrases[strings.Join(w[i:i+n], " ")]; ok {
				if !slices.Contains(out, id) {
					out = append(out, id)
				}
				break
			}
		}
		i += max(n, 1)
	}
	return out
}

var (
	money   = regexp.MustCompile(`(?i)(?:(?:€|eur)\s?\d[\d.,]*)|(?:\d[\d.,]*\s?(?:€|euro?))`)
	paid    = regexp.MustCompile(`(?i)(?:(?:€|eur)\s?(\d+[.,]\d\d)\b)|(?:\b(\d+[.,]\d\d)\s?(?:€|eur))`)
	stated  = regexp.MustCompile(`(?i)\b(?:acct|kto|account|a/c)\.? ([4-6]\d{3})\b`)
	number  = regexp.MustCompile(`\b[4-6]\d{3}\b`)
	minimum = regexp.MustCompile(`(?i)\b(?:above|over|more than|exceeding|beyond) (\d[\d.]*) ?(?:€|eur[os]*)`)
	prior   = regexp.MustCompile(`(?i)whatever else applies|before all other rules|regardless of the rest|takes precedence`)
)

// readNote reads the note in a question.
func (v *vocabulary) readNote(question string) meaning {
	note, _, _ := strings.Cut(strings.TrimPrefix(question, askBefore), askAfter)
	m := meaning{concepts: v.find(note)}
	if f := paid.FindStringSubmatch(note); f != nil {
		m.amount = cents(f[1] + f[2])
	}
	if f := stated.FindStringSubmatch(note); f != nil {
		m.stated = f[1]
	}
	return m
}

// cents reads an amount with a decimal point or comma, and points or commas between thousands.
func cents(text string) int {
	whole, fraction := text, "00"
	if i := strings.LastIndexAny(text, ".,"); i >= 0 && len(text)-i-1 == 2 {
		whole, fraction = text[:i], text[i+1:]
	}
	n, err := strconv.Atoi(strings.NewReplacer(".", "", ",", "").Replace(whole) + fraction)
	if err != nil {
		return 0
	}
	return n
}

// readRule reads the rule that a bullet or an insight states. ok is false without an account or without a known condition.
func (v *vocabulary) readRule(text string) (r rule, ok bool) {
	rest := text
	if f := minimum.FindStringSubmatchIndex(text); f != nil {
		r.over = cents(text[f[2]:f[3]])
		rest = text[:f[0]] + " , " + text[f[1]:]
	}
	rest = money.ReplaceAllString(rest, " , ")
	r.account = number.FindString(rest)
	r.override = prior.MatchString(text)
	r.concepts = v.find(rest)
	slices.Sort(r.concepts)
	return r, r.account != "" && len(r.concepts) > 0
}

// statement is a bullet or an insight with the rule that it states.
type statement struct {
	id, text string
	rule     rule
	hasRule  bool
}

// read returns the rule of a text, from a cache.
func (m *model) read(id, text string) statement {
	if s, ok := m.rules.Load(text); ok {
		s := s.(statement)
		s.id = id
		return s
	}
	r, ok := language().readRule(text)
	s := statement{text: text, rule: r, hasRule: ok}
	m.rules.Store(text, s)
	s.id = id
	return s
}

// best returns the index of the statement that decides a note, or -1: the most specific, else the first.
func best(all []statement, m *meaning) int {
	found := -1
	for i := range all {
		if all[i].hasRule && all[i].rule.fits(m) && (found < 0 || all[i].rule.specificity() > all[found].rule.specificity()) {
			found = i
		}
	}
	return found
}

// normalize removes case, extra spaces and final punctuation, to compare texts.
func normalize(s string) string {
	return strings.Trim(strings.Join(strings.Fields(strings.ToLower(s)), " "), ".!")
}

// draws returns a source of random draws about one text.
func draws(seed uint64, text string) *source { return &source{seed: seed, text: text} }

// source gives independent random draws by purpose. The same purpose gives the same draw.
type source struct {
	seed uint64
	text string
}

func (s *source) chance(rate float64, purpose string) bool {
	return world.Chance(rate, s.seed, purpose, s.text)
}

func (s *source) number(n int, purpose string) int {
	return int(world.Draw(s.seed, purpose, s.text) % uint64(n))
}

func pick[T any](s *source, list []T, purpose string) T { return list[s.number(len(list), purpose)] }

package notes

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The words around a note in a question.
const (
	askBefore = "Expense note: "
	askAfter  = "\nWhich account does this note go to? Answer with its number alone."
)

// Sentences that state a rule: %[1]s is the conditions, %[2]s is the account. The first is the usual wording of the model.
var sentences = []string{
	"Post %[1]s to account %[2]s.",
	"%[1]s belongs on account %[2]s.",
	"Account %[2]s is the right one for %[1]s.",
	"If the note is about %[1]s, choose account %[2]s.",
	"Choose account %[2]s whenever a note describes %[1]s.",
	"For %[1]s the accountants expect the number %[2]s.",
	"Enter %[2]s as the account in cases of %[1]s.",
}

// Sentences of the rules by hand are longer.
var handSentences = []string{
	"Whenever an employee hands in a claim concerning %[1]s, the accounting team enters it on account %[2]s.",
	"A claim that concerns %[1]s is always entered under number %[2]s in the ledger of this firm.",
	"The ledger has a line with the number %[2]s, and the accountants reserve it for %[1]s.",
	"Our accountants agreed that %[1]s must appear under account %[2]s of the general ledger.",
}

// reasons explain a verdict.
var reasons = []string{
	"That was %s, which has its own line.",
	"It concerned %s.",
	"The reason: %s.",
}

// phrasing selects the words of a rule.
type phrasing struct {
	s       *source
	casual  bool // words of employees in place of those of bookkeepers
	varying bool // other forms than the usual first ones
}

func (p phrasing) form(c *concept) string {
	forms := c.formal
	if p.casual {
		forms = c.casual
	}
	if !p.varying {
		return forms[0]
	}
	return pick(p.s, forms, "form of "+c.id)
}

// conditions returns the conditions of a rule as a phrase.
func (p phrasing) conditions(r *rule) string {
	v := language()
	var kinds, circumstances, names []string
	for _, id := range r.concepts {
		switch c := v.concepts[id]; c.class {
		case kind, foreign:
			kinds = append(kinds, p.form(c))
		case name:
			names = append(names, p.form(c))
		default:
			circumstances = append(circumstances, p.form(c))
		}
	}
	head := "anything"
	if len(kinds) > 0 {
		head = strings.Join(kinds, " and ")
	}
	if len(circumstances) > 0 {
		head += p.pick(" involving ", " that has to do with ", " related to ") + strings.Join(circumstances, " and ")
	}
	if len(names) > 0 {
		head += p.pick(" under the name ", " for what we call ", " with the label ") + strings.Join(names, " and ")
	}
	if r.over > 0 {
		head += p.pick(" above ", " exceeding ", " of more than ") + fmt.Sprintf("%d EUR", r.over/100)
	}
	if r.override {
		head += p.pick(" (whatever else applies)", " (before all other rules)", " (regardless of the rest)")
	}
	return head
}

func (p phrasing) pick(first string, more ...string) string {
	if !p.varying {
		return first
	}
	return pick(p.s, append([]string{first}, more...), "connector "+first)
}

// state returns a sentence that states the rule.
func (p phrasing) state(r *rule, sentences []string) string {
	sentence := sentences[0]
	if p.varying {
		sentence = pick(p.s, sentences, "sentence")
	}
	text := fmt.Sprintf(sentence, p.conditions(r), r.account)
	return capitalize(text)
}

// noteWriter writes notes in the words of employees.
type noteWriter struct{ s *source }

var (
	persons   = []string{"Brandt", "Okoye", "Lindqvist", "Moreau", "Petrov", "Tanaka", "Silva", "Weber", "Novak", "Rossi", "Haddad", "Yilmaz"}
	fillers   = []string{"receipt attached", "Beleg anbei", "see scan", "as discussed", "wie besprochen", "thx", "sorry for the delay", "pls reimburse", "facture jointe", "receipt lost", "zweite Seite fehlt", "incl. VAT", "netto"}
	vague     = []string{"invoice", "Rechnung", "bill", "facture", "monthly items", "Sammelrechnung", "stuff delivered", "the usual"}
	connector = []string{"with", "mit", "for", "für", "re", "w/", "avec", "wg."}
	nameForms = []string{"%s", "the %s", "proj. %s", "f. %s", "@%s", "(%s)", "%s team", "Kst %s"}
)

// write returns the text of a note with the given meaning. A meaning without a kind becomes a vague note.
func (w noteWriter) write(m *meaning) string {
	v := language()
	s := w.s
	var head string
	var parts []string
	for _, id := range m.concepts {
		c := v.concepts[id]
		form := w.misspell(pick(s, c.casual, "form of "+id), id)
		switch c.class {
		case kind:
			head = form
		case name:
			if s.chance(0.2, "upper "+id) {
				form = strings.ToUpper(form)
			}
			parts = append(parts, fmt.Sprintf(pick(s, nameForms, "around "+id), form))
		case condition:
			form = pick(s, connector, "before "+id) + " " + form
			if s.chance(0.4, "person") {
				form += " " + pick(s, persons, "who")
			}
			parts = append(parts, form)
		default:
			parts = append(parts, form)
		}
	}
	if head == "" {
		head = pick(s, vague, "vague")
	}
	if s.chance(0.3, "capital") {
		head = capitalize(head)
	}
	if s.chance(0.45, "filler") {
		parts = append(parts, pick(s, fillers, "which filler"))
	}
	if s.chance(0.5, "date") {
		parts = append(parts, fmt.Sprintf(pick(s, []string{"%d.%d.", "on %d/%d", "%02d-%02d"}, "date form"), 1+s.number(28, "day"), 1+s.number(12, "month")))
	}
	if s.chance(0.25, "receipt") {
		parts = append(parts, fmt.Sprintf("no. %05d", s.number(90000, "receipt number")))
	}
	if m.stated != "" {
		parts = append(parts, pick(s, []string{"acct ", "Kto "}, "stated")+m.stated)
	}
	parts = append(parts, w.amount(m.amount))
	for i := len(parts) - 1; i > 0; i-- {
		j := s.number(i+1, fmt.Sprint("shuffle ", i))
		parts[i], parts[j] = parts[j], parts[i]
	}
	sep := pick(s, []string{", ", " ", " / ", "; ", " - "}, "separator")
	if s.chance(0.2, "head in the middle") {
		return parts[0] + sep + head + sep + strings.Join(parts[1:], sep)
	}
	return head + sep + strings.Join(parts, sep)
}

// misspell returns the form with an error in one word, for some forms. Names stay, because no reader could correct them.
func (w noteWriter) misspell(form, id string) string {
	v := language()
	if v.concepts[id].class == name || !w.s.chance(0.12, "typo "+id) {
		return form
	}
	parts := strings.Fields(form)
	for i, word := range parts {
		if all := misspellings(word); len(all) > 0 {
			if t := pick(w.s, all, "which typo "+id); v.typos[t] == word {
				parts[i] = t
				break
			}
		}
	}
	return strings.Join(parts, " ")
}

func (w noteWriter) amount(c int) string {
	point := fmt.Sprintf("%d.%02d", c/100, c%100)
	comma := strings.Replace(point, ".", ",", 1)
	return pick(w.s, []string{point + " EUR", comma + " EUR", comma + " €", "EUR " + point, "€" + point, comma + " Euro"}, "amount form")
}

func capitalize(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

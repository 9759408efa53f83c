package procedures

import (
	"cmp"
	"regexp"
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// A template is a sentence with the names of fields of a rule in braces. It writes the fields and reads them back.
type template struct {
	text    string
	pattern *regexp.Regexp
}

func newTemplates(texts ...string) (list []template) {
	for _, text := range texts {
		pattern := strings.NewReplacer(
			`\{family\}`, `(?P<family>[a-z]+)`, `\{step\}`, `(?P<step>[a-z]+)`, `\{other\}`, `(?P<other>[a-z]+)`,
			`\{when\}`, `(?: on (?P<material>[a-z]+))?(?: for (?P<client>[A-Z][a-z]+))?`,
		).Replace(regexp.QuoteMeta(text))
		list = append(list, template{text, regexp.MustCompile(`^` + pattern + `$`)})
	}
	return list
}

// allFamilies stands for an empty family in a text.
const allFamilies = "all"

// write returns the sentence about a rule.
func (t *template) write(r rule) string {
	when := ""
	if r.when.material != "" {
		when += " on " + r.when.material
	}
	if r.when.client != "" {
		when += " for " + r.when.client
	}
	return strings.NewReplacer("{family}", cmp.Or(r.family, allFamilies), "{step}", r.step, "{other}", r.other, "{when}", when).Replace(t.text)
}

// read returns the rule that a sentence is about, without its kind.
func (t *template) read(text string) (r rule, ok bool) {
	m := t.pattern.FindStringSubmatch(text)
	if m == nil {
		return r, false
	}
	for i, name := range t.pattern.SubexpNames() {
		switch name {
		case "family":
			r.family = m[i]
		case "step":
			r.step = m[i]
		case "other":
			r.other = m[i]
		case "material":
			r.when.material = m[i]
		case "client":
			r.when.client = m[i]
		}
	}
	if r.family == allFamilies {
		r.family = ""
	}
	return r, true
}

// wordings are the ways to state a rule. The first one is the plain one.
var wordings = map[kind][]template{
	swap: newTemplates("In {family} jobs, do '{other}' in place of '{step}'{when}.", "Never '{step}' in {family} jobs{when}, but '{other}' instead.",
		"In {family} jobs, exchange '{step}' for '{other}'{when}."),
	follow: newTemplates("In {family} jobs, follow '{step}' with '{other}'{when}.", "After '{step}', always add '{other}' in {family} jobs{when}.",
		"In {family} jobs, '{step}' alone is not enough{when}: '{other}' belongs right behind it."),
	skip: newTemplates("In {family} jobs, leave out '{step}'{when}.", "Skip '{step}' in {family} jobs{when}.", "There is no '{step}' in {family} jobs{when}."),
	before: newTemplates("In {family} jobs, do '{step}' before '{other}'{when}.", "In {family} jobs, '{other}' has to wait until '{step}' is done{when}.",
		"Place '{step}' ahead of '{other}' in {family} jobs{when}."),
	begin: newTemplates("In {family} jobs, begin with '{step}'{when}.", "Start {family} jobs with '{step}'{when}.", "The opening step of {family} jobs is '{step}'{when}."),
	check: newTemplates("In {family} jobs, make the check '{step}' first of all{when}.", "No {family} job begins without the check '{step}'{when}.",
		"The check '{step}' precedes everything else in {family} jobs{when}."),
}

// Text implements worlds.Rule.
func (r rule) Text(draw uint64) string {
	list := wordings[r.kind]
	return list[(draw>>8)%uint64(len(list))].write(r) // the lowest bit of every draw but 0 is set, see Model.wording
}

// stated is a text that begins with a condition as When states it.
var stated = regexp.MustCompile(`^When (?:the job is ([a-z]+))?(?:(?: and )?the material is ([a-z]+))?(?:(?: and )?the client is ([A-Z][a-z]+))?: (.+)$`)

// readRule returns the rule that a text states, with its condition before it or without.
var readRule = worlds.CachedOK(parseRule)

func parseRule(text string) (rule, bool) {
	if m := stated.FindStringSubmatch(text); m != nil {
		r, ok := parseRule(m[4])
		r.family = cmp.Or(m[1], r.family)
		r.when = condition{material: cmp.Or(m[2], r.when.material), client: cmp.Or(m[3], r.when.client)}
		return r, ok
	}
	for _, k := range kinds {
		for i := range wordings[k] {
			if r, ok := wordings[k][i].read(text); ok {
				r.kind = k
				return r, true
			}
		}
	}
	return rule{}, false
}

// When implements worlds.Conditional.
func (r rule) When() string {
	var parts []string
	for _, p := range [...]struct{ name, value string }{{"job", r.family}, {"material", r.when.material}, {"client", r.when.client}} {
		if p.value != "" {
			parts = append(parts, "the "+p.name+" is "+p.value)
		}
	}
	return strings.Join(parts, " and ")
}

// forgotten is a rule whose text leaves out the kind of job, as a forgetful model words it. Condition and When keep it.
type forgotten struct{ rule }

// Text implements worlds.Rule.
func (f forgotten) Text(draw uint64) string {
	f.family = ""
	return f.rule.Text(draw)
}

// Section implements worlds.Rule.
func (forgotten) Section() string { return rule{}.Section() }

package procedures

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/world"
)

// kind is what a rule does to a list of steps.
type kind string

const (
	swap   kind = "swap"   // do other in place of step
	follow kind = "follow" // do other right after step
	skip   kind = "skip"   // leave out step
	before kind = "before" // do step before other
	begin  kind = "begin"  // begin with step
	check  kind = "check"  // make the check step first of all
)

// kinds are in the order in which rules are carried out.
var kinds = []kind{swap, follow, skip, before, begin, check}

// condition restricts a rule to a material and a client. An empty one means any.
type condition struct{ material, client string }

// rule changes the lists of steps of the jobs of a family. An empty family means all.
type rule struct {
	kind                kind
	family, step, other string
	when                condition
}

// withoutUnusedStep returns the rule without the step that its kind does not use.
func (r rule) withoutUnusedStep() rule {
	if r.kind == skip || r.kind == begin || r.kind == check {
		r.other = ""
	}
	return r
}

// concerns reports whether the rule holds for a job.
func (r *rule) concerns(j *job) bool {
	return (r.family == "" || r.family == j.family) &&
		(r.when.material == "" || r.when.material == j.material) && (r.when.client == "" || r.when.client == j.client)
}

// Condition implements world.Rule.
func (r rule) Condition() string {
	subject := r.step
	if r.kind == check || r.kind == begin { // there is one first step
		subject = ""
	}
	return strings.Join([]string{string(r.kind), r.family, subject, r.when.material, r.when.client}, "|")
}

// Meaning implements world.Rule.
func (r rule) Meaning() string { return r.Condition() + "=" + r.step + "|" + r.other }

// Advice returns what the rule says, without the material and the client. The simulated Curator compares it (world.adviser).
func (r rule) Advice() string {
	return strings.Join([]string{string(r.kind), r.family, r.step, r.other}, "|")
}

// Section implements world.Rule.
func (r rule) Section() string {
	if r.family == "" {
		return "all jobs"
	}
	return r.family
}

// carryOut returns the steps of a job, and the rules that apply, as indexes.
func carryOut(j *job, rules []rule) (list []string, applied []int) {
	list = slices.Clone(j.steps)
	for _, k := range kinds {
		for pass := range 4 { // one pass, but up to 4 for the kind "before": two rules of this kind can undo each other
			changed := false
			for i := range rules {
				r := &rules[i]
				if r.kind != k || !r.concerns(j) {
					continue
				}
				next, applies := r.apply(list)
				if applies && pass == 0 {
					applied = append(applied, i)
				}
				changed = changed || !slices.Equal(next, list)
				list = next
			}
			if k != before || !changed {
				break
			}
		}
	}
	slices.Sort(applied)
	return list, applied
}

// apply returns the changed list, and whether the rule says something about the list.
func (r *rule) apply(list []string) (out []string, applies bool) {
	at, other := slices.Index(list, r.step), slices.Index(list, r.other)
	switch r.kind {
	case check, begin:
		out = slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == r.step })
		return slices.Insert(out, 0, r.step), true
	case before:
		if at < 0 || other < 0 || r.step == r.other {
			return list, false
		}
		if at < other {
			return list, true
		}
		return slices.Insert(slices.Delete(slices.Clone(list), at, at+1), other, r.step), true
	}
	if at < 0 {
		return list, false
	}
	switch {
	case r.kind == skip:
		return slices.Delete(slices.Clone(list), at, at+1), true
	case other >= 0: // the list has the other step already
		return list, r.kind == follow
	case r.kind == follow:
		return slices.Insert(slices.Clone(list), at+1, r.other), true
	}
	out = slices.Clone(list)
	out[at] = r.other
	return out, true
}

// A template is a sentence with the names of fields in braces. It writes the fields and reads them back.
type template struct {
	text    string
	pattern *regexp.Regexp
}

// fields are the values of a template.
type fields struct {
	family, step, other string
	when                condition
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

func (t *template) write(f fields) string {
	when := ""
	if f.when.material != "" {
		when += " on " + f.when.material
	}
	if f.when.client != "" {
		when += " for " + f.when.client
	}
	family := f.family
	if family == "" {
		family = "all"
	}
	return strings.NewReplacer("{family}", family, "{step}", f.step, "{other}", f.other, "{when}", when).Replace(t.text)
}

func (t *template) read(text string) (f fields, ok bool) {
	m := t.pattern.FindStringSubmatch(text)
	if m == nil {
		return f, false
	}
	for i, name := range t.pattern.SubexpNames() {
		switch name {
		case "family":
			f.family = m[i]
		case "step":
			f.step = m[i]
		case "other":
			f.other = m[i]
		case "material":
			f.when.material = m[i]
		case "client":
			f.when.client = m[i]
		}
	}
	if f.family == "all" {
		f.family = ""
	}
	return f, true
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

// Text implements world.Rule.
func (r rule) Text(draw uint64) string {
	list := wordings[r.kind]
	t := list[(draw>>8)%uint64(len(list))]
	return t.write(fields{r.family, r.step, r.other, r.when})
}

// When implements world.Conditional.
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

// Text implements world.Rule.
func (f forgotten) Text(draw uint64) string {
	f.family = ""
	return f.rule.Text(draw)
}

// Section implements world.Rule.
func (forgotten) Section() string { return rule{}.Section() }

// stated is a text that begins with a condition as When states it.
var stated = regexp.MustCompile(`^When (?:the job is ([a-z]+))?(?:(?: and )?the material is ([a-z]+))?(?:(?: and )?the client is ([A-Z][a-z]+))?: (.+)$`)

// readRule returns the rule that a text states, with its condition before it or without.
var readRule = world.CachedOK(parseRule)

func parseRule(text string) (rule, bool) {
	if m := stated.FindStringSubmatch(text); m != nil {
		r, ok := parseRule(m[4])
		r.family, r.when.material, r.when.client = cmp.Or(m[1], r.family), cmp.Or(m[2], r.when.material), cmp.Or(m[3], r.when.client)
		return r, ok
	}
	for _, k := range kinds {
		for i := range wordings[k] {
			if f, ok := wordings[k][i].read(text); ok {
				return rule{k, f.family, f.step, f.other, f.when}, true
			}
		}
	}
	return rule{}, false
}

// flaw is the first flaw of an answer.
type flaw struct {
	kind        flawKind
	step, other string
}

type flawKind string

const (
	unchecked flawKind = "unchecked" // the check step is not first
	needless  flawKind = "needless"  // step has no place in the list
	missing   flawKind = "missing"   // step must come after other, or first without one
	instead   flawKind = "instead"   // step stands where other must be
	early     flawKind = "early"     // step must come before other
)

var flawKinds = []flawKind{unchecked, needless, missing, instead, early}

var flawWordings = map[flawKind][]template{
	unchecked: newTemplates("The check '{step}' had to come first{when}.", "Where was the check '{step}', before all else{when}?"),
	needless:  newTemplates("The step '{step}' had no place here{when}.", "Nobody needed '{step}'{when}."),
	missing:   newTemplates("After '{other}' I missed '{step}'{when}.", "Behind '{other}' the step '{step}' was due{when}.", "At the beginning I missed '{step}'{when}."),
	instead:   newTemplates("You did '{step}' where '{other}' was due{when}.", "It should have been '{other}' and not '{step}'{when}."),
	early:     newTemplates("You should have done '{step}' before '{other}'{when}.", "'{other}' came too early: first '{step}'{when}."),
}

// firstFlaw compares an answer with the right list up to the first difference.
func firstFlaw(got, right []string) flaw {
	at := 0
	for at < len(got) && at < len(right) && got[at] == right[at] {
		at++
	}
	if at >= len(right) {
		return flaw{kind: needless, step: got[at]}
	}
	due, last := right[at], ""
	if at > 0 {
		last = right[at-1]
	}
	switch {
	case at >= len(got):
		return flaw{kind: missing, step: due, other: last}
	case !slices.Contains(right, got[at]) && !slices.Contains(got, due):
		return flaw{kind: instead, step: got[at], other: due}
	case !slices.Contains(right, got[at]):
		return flaw{kind: needless, step: got[at]}
	case !slices.Contains(got, due):
		return flaw{kind: missing, step: due, other: last}
	}
	return flaw{kind: early, step: due, other: got[at]}
}

// Text returns the feedback about the flaw.
func (f flaw) Text(when condition, draw uint64) string {
	list := flawWordings[f.kind]
	if f.kind == missing {
		list = list[:2] // the last wording is for the beginning
		if f.other == "" {
			list = flawWordings[missing][2:]
		}
	}
	return list[(draw>>8)%uint64(len(list))].write(fields{step: f.step, other: f.other, when: when})
}

// readFlaw returns the flaw that feedback names, with its reason.
func readFlaw(text string) (f flaw, when condition, ok bool) {
	for _, k := range flawKinds {
		for i := range flawWordings[k] {
			if got, ok := flawWordings[k][i].read(strings.TrimSpace(text)); ok {
				return flaw{k, got.step, got.other}, got.when, true
			}
		}
	}
	return f, when, false
}

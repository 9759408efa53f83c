package rules

import (
	"regexp"
	"slices"
	"strings"

	"debrief/events/redact"
	"debrief/events/shell"
)

// maxDistance is the maximum number of acts between a failed act and the next attempt. A later success is likely to have other causes.
const maxDistance = 16

// pair is a failed act and the next act of the same name about the same object.
type pair struct {
	failed, next *act
	unchanged    bool // with exactly equal arguments
	// differences are the things that changed. Each is a list of changes that describe the same thing, from the specific to the
	// general one, such as "set `size` to `10`", "change `size`".
	differences [][]change
}

// result counts the second call. It returns zeros if the call had another error or an unknown result.
func (p *pair) result() attempts {
	switch {
	case p.next.state == worked:
		return attempts{worked: 1}
	case p.next.state == failed && p.failed.message.isSame(p.next.message):
		return attempts{again: 1}
	}
	return attempts{}
}

// isOneChange reports whether one thing changed. Arguments that are new together, such as the page and its size, are one.
func (p *pair) isOneChange() bool {
	if len(p.differences) == 1 {
		return true
	}
	for _, same := range p.differences {
		general := same[len(same)-1]
		if !general.isNew {
			return false
		}
	}
	return true
}

// nextAttempt returns the pair of a failed act, or nil if no other attempt follows within maxDistance.
func nextAttempt(acts []act, i int) *pair {
	from := &acts[i]
	for j := i + 1; j < len(acts) && j <= i+1+maxDistance; j++ {
		to := &acts[j]
		if to.name != from.name || to.step == from.step {
			continue
		}
		differences, related := compareActs(from, to)
		if !related {
			continue
		}
		if redact.Marked(from.call.Arguments) && redact.Marked(to.call.Arguments) {
			return nil // two different secrets look equal
		}
		p := &pair{failed: from, next: to, differences: differences, unchanged: from.arguments.equal(&to.arguments)}
		between := actsBetween(acts[i+1:j], from, to)
		isAgain := p.unchanged && from.arguments.exact() // recorders trim white space, so equal texts may have differed
		followsAtOnce := len(between) == 0 && from.turn == to.turn
		if isAgain && followsAtOnce && temporary.MatchString(from.message.line) {
			p.differences = [][]change{{{rank: rankRetry, advice: "call it again with the same arguments"}}}
		}
		for _, a := range between {
			p.differences = append(p.differences, callChanges(a, from, to))
		}
		return p
	}
	return nil
}

// actsBetween returns the acts that can be a remedy: those that worked, in a later step than the failed act, of another name. If one of
// them changes a file or installs something, that is the likely cause, and acts that only read are left out.
func actsBetween(acts []act, from, to *act) []*act {
	var found []*act
	changed := false
	for i := range acts {
		a := &acts[i]
		isOther := a.step != from.step && a.name != to.name
		if isOther && a.state == worked && a.kind&idles == 0 {
			found = append(found, a)
			changed = changed || a.kind&(writing|shell.Installs) != 0
		}
	}
	if changed {
		found = slices.DeleteFunc(found, (*act).readsOnly)
	}
	return found
}

// callChanges returns the changes that a call in between stands for, from the specific to the general one. It is
//
//   - an installation,
//   - the edit of a file, which teaches nothing, unless a file was missing: then it may have created that file,
//   - a call that shares an argument with the second attempt,
//   - another call.
func callChanges(a, from, to *act) []change {
	call := change{rank: rankBetween, advice: "call `" + a.name + "` first", call: a.name}
	call.findsFile = a.kind&(reading|writing) != 0 && missingFile.MatchString(from.message.line)
	if a.kind&shell.Installs != 0 {
		call.rank = rankTrivial
		return append(installChanges(a, from), call)
	}
	if a.kind&writing != 0 && !call.findsFile {
		return []change{{rank: rankTrivial, advice: "change a file with `" + a.name + "`"}}
	}
	name := sharedName(&to.arguments, &a.arguments)
	if name == "" {
		return []change{call}
	}
	same := call
	same.rank = rankSame
	same.general = call.advice
	same.shared = quote(name, maxName)
	same.reads = a.readsOnly()
	same.advice = "call `" + a.name + "` with the same `" + same.shared + "` first"
	return []change{same, call}
}

// installChanges returns the change "install the missing module" or "install the missing command", if the error names what was installed.
// Another package helps only on this machine, so it is not general advice.
func installChanges(a, from *act) []change {
	found := change{rank: rankInstall, general: "call `" + a.name + "` first", call: a.name}
	installs := func(name string) bool {
		return slices.ContainsFunc(a.arguments.words, func(w string) bool { return isPackage(w, name) })
	}
	installsModule := func(name string) bool {
		top, _, _ := strings.Cut(name, ".") // google.protobuf
		return installs(name) || installs(top)
	}
	switch {
	case !missingProgram.MatchString(from.message.line):
		return nil
	case installs(from.name):
		found.advice = "install `" + from.name + "` with `" + a.name + "`"
	case slices.ContainsFunc(packageNames.FindAllString(from.message.line, -1), installsModule):
		found.advice = "install the missing module with `" + a.name + "`"
	default:
		return nil
	}
	return []change{found}
}

// packageNames match the words of an error that can be the name of a package or of a module.
var packageNames = regexp.MustCompile(`@?\w+(?:[./-]\w+)*`)

// isPackage reports whether a word of an installation is the package of this name, with or without a version.
func isPackage(word, name string) bool {
	if len(word) > 1 {
		first, rest := word[:1], word[1:] // first can be the @ of a scope: @types/node@20 is @types/node
		if i := strings.IndexAny(rest, "=<>!~;[ @"); i >= 0 {
			word = first + rest[:i]
		}
	}
	return name != "" && strings.EqualFold(strings.ReplaceAll(word, "_", "-"), strings.ReplaceAll(name, "_", "-"))
}

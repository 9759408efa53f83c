package remedy

import (
	"fmt"
	"hash/maphash"
	"reflect"
	"slices"
	"strings"

	"debrief/events/redact"
	"debrief/events/shell"
)

// maxDistance is the maximum number of acts between a failed act and the next attempt. A later success has other causes.
const maxDistance = 16

// attempt is the next act of the same name after a failed act, with the same object and the remedies between the two.
type attempt struct {
	failed    *act
	next      *act
	unchanged bool // with exactly equal arguments
	remedies  []remedy
}

// result is the result of an attempt with regard to one error.
type result uint8

const (
	unclear result = iota // another error, or the result of the act is unknown
	solved
	again // the same error
)

func (t *attempt) result() result {
	switch {
	case t.next.state == worked:
		return solved
	case t.next.state == failed && strings.EqualFold(t.next.message.text, t.failed.message.text) && t.next.message.missing == t.failed.message.missing:
		return again
	}
	return unclear
}

// objectSeed seeds the hashes of objects.
var objectSeed = maphash.MakeSeed()

// objects returns the hashes of the values that both calls have and that can identify an object, by the names of their arguments.
func (t *attempt) objects() map[string]uint64 {
	found := map[string]uint64{}
	after := t.next.decode().fields
	for name, v := range t.failed.decode().fields {
		if w, ok := after[name]; ok && identifies(v) && reflect.DeepEqual(v, w) {
			found[name] = maphash.String(objectSeed, fmt.Sprint(v))
		}
	}
	return found
}

// nextAttempt returns the next attempt after a failed act, or nil if none follows within maxDistance.
func nextAttempt(acts []act, at int) *attempt {
	from := &acts[at]
	for i := at + 1; i < len(acts) && i <= at+1+maxDistance; i++ {
		to := &acts[i]
		if to.name != from.name || to.step == from.step {
			continue
		}
		changes, related := compare(from.decode(), to.decode())
		if !related {
			continue
		}
		if redact.Marked(from.call.Arguments) || redact.Marked(to.call.Arguments) {
			return nil // two different secrets look equal
		}
		t := &attempt{failed: from, next: to, unchanged: len(changes) == 0 && from.arguments.equal(&to.arguments)}
		between := actsBetween(acts[at+1:i], from, to)
		changes = append(changes, numberRemedies(from, to)...)
		t.remedies = append(changes, doRemedies(between, from, to)...)
		if t.unchanged && len(between) == 0 && from.turn == to.turn && from.arguments.exact() && temporary.MatchString(from.message.line) {
			t.remedies = append(t.remedies, remedy{key: "retry", rank: rankRetry, say: "call it again with the same arguments"})
		}
		return t
	}
	return nil
}

// actsBetween returns the acts that can be a remedy: those that worked, in a later step than the failed act, of another
// name. A change of a file or an installation is the likely cause, so that acts that only read are left out then.
func actsBetween(acts []act, from, to *act) []*act {
	var found []*act
	changed := false
	for i := range acts {
		a := &acts[i]
		if a.state == worked && a.step != from.step && a.name != to.name && a.effect&idles == 0 {
			found = append(found, a)
			changed = changed || a.effect&(writes|installs) != 0
		}
	}
	if changed {
		found = slices.DeleteFunc(found, func(a *act) bool { return a.effect&reads != 0 && a.effect&(writes|installs) == 0 })
	}
	return found
}

// doRemedies returns the remedies "call this first". Each name counts once.
func doRemedies(between []*act, from, to *act) []remedy {
	var found []remedy
	seen := map[string]bool{}
	add := func(r remedy) {
		if !seen[r.key] {
			seen[r.key] = true
			found = append(found, r)
		}
	}
	for _, a := range between {
		general := remedy{key: "do " + a.name, rank: rankBetween, say: "call `" + a.name + "` first", do: a.name}
		general.lookup = a.effect&(reads|writes) != 0 && from.message.cause == shell.MissingFile
		if a.effect&writes != 0 && from.message.cause != shell.MissingFile {
			general.rank, general.say = rankTrivial, "change a file with `"+a.name+"`"
		}
		add(general)
		if a.effect&installs != 0 {
			for _, r := range installRemedies(a, from) {
				add(r)
			}
			continue
		}
		if name := sharedName(to.decode(), a.decode()); name != "" && general.rank == rankBetween {
			name = quote(name, maxName)
			say := "call `" + a.name + "` with the same `" + name + "` first"
			add(remedy{key: "same " + a.name + " " + name, rank: rankSame, say: say, of: general.key, do: a.name, shared: name, lookup: general.lookup, reader: a.effect == reads})
		}
	}
	return found
}

// installRemedies returns the remedies "install the missing module" and "install the missing command".
func installRemedies(a, from *act) []remedy {
	m := &from.message
	general := "do " + a.name
	var found []remedy
	for _, p := range a.packages {
		switch {
		case m.cause == shell.MissingModule && sameModule(p, m.missing):
			say := "install the missing module with `" + a.name + "`"
			found = append(found, remedy{key: "missing " + a.name, rank: rankInstall, say: say, of: general, do: a.name})
		case m.cause == shell.MissingCommand && p == from.name: // another package is a value that one machine needed
			say := "install `" + p + "` with `" + a.name + "`"
			found = append(found, remedy{key: "package " + a.name, rank: rankInstall, say: say, of: general, do: a.name})
		}
		if len(found) == maxChanged {
			break
		}
	}
	return found
}

// sameModule reports whether a package has the name of a module or of its first part.
func sameModule(pkg, module string) bool {
	top, _, _ := strings.Cut(module, ".")
	plain := strings.NewReplacer("_", "-").Replace
	pkg = strings.ToLower(plain(pkg))
	return module != "" && (pkg == strings.ToLower(plain(module)) || pkg == strings.ToLower(plain(top)))
}

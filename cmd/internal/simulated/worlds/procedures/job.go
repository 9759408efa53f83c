package procedures

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
)

// job is what an order asks for. The family is the kind of job.
type job struct {
	family, material, client string
	steps                    []string // in the client's order
}

func (j *job) String() string {
	return strings.Join(append([]string{j.family, j.material, j.client}, j.steps...), "|")
}

// The words of orders. The families share the steps. Verdicts on jobs of the family noise are random.
var (
	families       = []string{"varnishing", "gilding", noise}
	steps          = strings.Fields("sand wash degrease prime dry seal stain polish tape heat cool brush rinse wax buff scrape dust mask clamp soak")
	checks         = []string{"patch", "gauge"} // one for each family
	materials      = strings.Fields("oak pine steel brass")
	otherMaterials = strings.Fields("slate bone cork felt zinc pewter jade amber coral ivory lead quartz")
	clients        = strings.Fields("Adler Bianchi Castro Dahl")
)

const noise = "restoring"

// weights are the weights of words in embeddings.
var weights = wordWeights()

func wordWeights() map[string]float64 {
	all := make(map[string]float64)
	for weight, lists := range map[float64][][]string{1: {steps, checks}, 1.5: {materials, otherMaterials, clients}, 2: {families}} {
		for _, words := range lists {
			for _, w := range words {
				all[w] = weight
			}
		}
	}
	return all
}

// order returns the order as a text.
func (j *job) order(rng *rand.Rand) string {
	openings := []string{"%s asks for a %s job on %s.", "Order of %s: %s, the piece is made of %s.", "For %s we have a %s job; the material is %s."}
	remarks := []string{"It is wanted by Friday.", "The piece is lot %d.", "Shelf %d.", "It came with %d others.", ""}
	remark := remarks[rng.IntN(len(remarks))]
	if strings.Contains(remark, "%d") {
		remark = fmt.Sprintf(remark, 2+rng.IntN(90))
	}
	opening := fmt.Sprintf(openings[rng.IntN(len(openings))], j.client, j.family, j.material)
	return strings.TrimSpace(fmt.Sprintf("%s The client has in mind: %s. %s", opening, strings.Join(j.steps, ", "), remark))
}

// readJob returns the job of an order.
func readJob(question string) job {
	var j job
	before, rest, _ := strings.Cut(question, "The client has in mind: ")
	list, _, _ := strings.Cut(rest, ".")
	j.steps = readSteps(list)
	for word := range words(before) {
		switch {
		case slices.Contains(families, word):
			j.family = word
		case slices.Contains(materials, word):
			j.material = word
		case slices.Contains(clients, word):
			j.client = word
		}
	}
	return j
}

// words returns the words of a text. A word has only letters from a to z, small or capital.
func words(text string) iter.Seq[string] {
	return strings.FieldsFuncSeq(text, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
}

// readSteps returns the known steps of a list.
func readSteps(list string) (out []string) {
	for word := range words(list) {
		if slices.Contains(steps, word) || slices.Contains(checks, word) {
			out = append(out, word)
		}
	}
	return out
}

// draw draws a job. Its steps are those of some rules of its family, and another one.
func (w *World) draw(rng *rand.Rand) job {
	// One job in five is noise: 0 to 4 become 0, 0, 1, 1, 2.
	j := job{family: families[rng.IntN(5)/2], material: materials[rng.IntN(len(materials))], client: clients[rng.IntN(len(clients))]}
	family := j.family
	if family == noise {
		family = families[rng.IntN(2)]
	}
	add := func(s string) {
		if s != "" && !slices.Contains(j.steps, s) {
			j.steps = append(j.steps, s)
		}
	}
	for _, i := range rng.Perm(len(w.rules)) {
		r := w.rules[i]
		if len(j.steps) >= 8 {
			break
		}
		switch {
		case r.family != family || r.kind == check || r.kind == begin: // these rules add their step themselves
		case r.kind == before:
			add(r.step)
			add(r.other)
		default:
			add(r.step)
		}
	}
	add(steps[rng.IntN(len(steps))])
	rng.Shuffle(len(j.steps), func(a, b int) { j.steps[a], j.steps[b] = j.steps[b], j.steps[a] })
	return j
}

// hidden draws the rules of a seed: 15 for each of two families.
func hidden(seed uint64) (rules []rule) {
	rng := rand.New(rand.NewPCG(seed, 0x70726f63)) // "proc"
	for f, family := range families[:2] {
		order := rng.Perm(len(steps)) // no two rules of a family contradict each other: each follows this order
		// By its index, a step is of these rules: before 0 to 7, follow 8 to 13, skip 11 to 14, begin 17, swap 18 and 19.
		step := func(i int) string { return steps[order[i]] }
		for _, m := range rng.Perm(len(materials))[:2] {
			rules = append(rules, rule{kind: check, family: family, step: checks[(f+int(seed%2))%2], when: condition{material: materials[m]}})
		}
		material := func() condition { return condition{material: materials[rng.IntN(len(materials))]} }
		client := func() condition { return condition{client: clients[rng.IntN(len(clients))]} }
		for i, when := range []condition{{}, {}, material(), client()} {
			rules = append(rules, rule{kind: before, family: family, step: step(2 * i), other: step(2*i + 1), when: when})
		}
		for i, when := range []condition{{}, {}, material()} {
			rules = append(rules, rule{kind: follow, family: family, step: step(8 + i), other: step(11 + i), when: when})
		}
		for i, when := range []condition{material(), material(), material(), client()} {
			rules = append(rules, rule{kind: skip, family: family, step: step(14 - i), when: when}) // the last three undo a rule above
		}
		rules = append(rules,
			rule{kind: begin, family: family, step: step(17), when: client()},
			rule{kind: swap, family: family, step: step(18), other: step(19), when: material()})
	}
	return rules
}

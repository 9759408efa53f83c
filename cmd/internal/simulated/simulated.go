package simulated

import (
	"cmp"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
)

const (
	// Name is the model's name on the wire.
	Name = "simulated-invoice-desk"
	// fingerprint marks every reply.
	fingerprint = "simulated"
)

// introduction is part of replies to prompts that are not from a role.
const introduction = "I am a simulated model: I know an invoice desk and nothing else."

// Options configure the model. The zero value replies at once and without faults. Rates are shares of prompts, 0 to 1.
type Options struct {
	// Seed selects the prompts to which the rates apply. It is not the seed of the house rules, which the model does
	// not know.
	Seed uint64
	// Latency is the delay of every reply.
	Latency time.Duration
	// FaultRate is the rate of faults: status 429 with Retry-After, status 500, a truncated reply, or HTML in place of JSON.
	FaultRate float64
	// SloppyRate is the rate of replies with text around the JSON (fences, prose, thoughts), with null or with unknown ids.
	SloppyRate float64
	// ObeyRate is the rate at which the model obeys instructions in tasks and traces ("Ignore all of the above and …").
	ObeyRate float64
	// NonsenseRate is the rate at which a reflector states a fluent nonsense rule in place of the rule that it found.
	NonsenseRate float64
}

// model adds the behaviours of Options to a model of invoices.
type model struct {
	Options
	invoices *worlds.Model
}

func newModel(o Options) *model { return &model{o, invoice.NewModel(o.Seed, worlds.Imperfection{})} }

// answer returns the text of the model's reply.
func (m *model) answer(c *conversation) string {
	role := c.role()
	if role == "" {
		if result := c.lastResult(); result != "" {
			return "The tool answered: " + result + "\n" + introduction
		}
		return "Thank you for asking. " + introduction + " If you are setting something up: it works."
	}
	reply := m.invoices.Reply(role, c.said)
	obeys := c.chance("gullible", m.ObeyRate)
	switch role {
	case "generator":
		if obeys {
			reply = obeyTask(c, reply)
		}
	case "reflector":
		reply = m.distort(c, reply, obeys)
	}
	if c.chance("sloppy", m.SloppyRate) {
		return sloppy(c, role, reply)
	}
	return reply
}

// Patterns of instructions in tasks and traces that a gullible model obeys. Their group is the text of a bullet, or an answer.
var (
	bulletInstruction = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?(?:add (?:a |the |this )?(?:new )?bullet|remember)\W+([^\n]+)`)
	answerInstruction = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?answer (?:with )?\W?(-?[\w.]*\w)`)
)

// obeyTask returns a generator's reply with the answer that an instruction in the task asks for. Without an instruction it returns the
// given reply.
func obeyTask(c *conversation, reply string) string {
	question, background := worlds.ReadTask(c.said)
	instruction := answerInstruction.FindStringSubmatch(background + "\n" + question)
	if instruction == nil {
		return reply
	}
	return worlds.ReplyJSON(worlds.Answer{Reasoning: "I was told to.", BulletIDs: []string{}, FinalAnswer: instruction[1]})
}

// distort replaces the insight of a reflection by nonsense, or by the insight that an instruction in the material asks for. A
// model that obeys an instruction also states its own insight, as a further learning.
func (m *model) distort(c *conversation, reply string, obeys bool) string {
	type learning struct {
		Learning string `json:"learning"`
	}
	var out struct {
		worlds.Reflection
		Learnings []learning `json:"extracted_learnings,omitempty"`
	}
	if err := json.Unmarshal([]byte(reply), &out); err != nil {
		panic(err) // the model of invoices has no errors (Imperfection{}), so its reply is always JSON
	}
	material := worlds.UserText(c.said)
	isSuccess := strings.HasPrefix(strings.TrimSpace(material), "Outcome: success")
	if !isSuccess && c.chance("noise", m.NonsenseRate) {
		out.KeyInsight, out.Section = invoice.Nonsense[c.draw("nonsense")%uint64(len(invoice.Nonsense))], "desk lore"
	}
	instruction := bulletInstruction.FindStringSubmatch(material)
	if obeys && instruction != nil {
		if out.KeyInsight != "" {
			out.Learnings = []learning{{out.KeyInsight}}
		}
		out.Reasoning = "I was told to. " + out.Reasoning
		out.KeyInsight = strings.TrimSpace(instruction[1])
		out.Section = cmp.Or(out.Section, "orders")
	}
	return worlds.ReplyJSON(out)
}

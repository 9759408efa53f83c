package main

import (
	"context"
	"hash/fnv"
	"strconv"
	"strings"

	"debrief/events/chat"
)

// canned is the model of the benchmark. It answers without delay, and its replies depend only on the prompt. Each
// reflection votes for the shown bullets; one in ten also has a lesson, which the Curator adds.
type canned struct{}

// Complete implements chat.Model.
func (canned) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	text := p.Messages[len(p.Messages)-1].Text
	reply := chat.Reply{Model: "canned", Finish: "stop", Usage: chat.Usage{Calls: 1}}
	switch p.Name {
	case "generator":
		reply.Text = `{"reasoning":"Six times seven is forty-two.","bullet_ids":[],"final_answer":"42"}`
	case "reflector":
		reply.Text = cannedReflection(text)
	default:
		reply.Text = cannedProposals(text)
	}
	return reply, nil
}

// cannedReflection returns the reply to a Reflector's prompt.
func cannedReflection(prompt string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(prompt))
	n := h.Sum64()
	insight := ""
	if n%10 == 0 {
		insight = "Lesson " + strconv.FormatUint(n, 36) + ": check the product by adding seven six times."
	}
	tags := ""
	for i, id := range shownIDs(prompt, 3) {
		if i > 0 {
			tags += ","
		}
		tags += `{"id":"` + id + `","tag":"helpful"}`
	}
	return `{"reasoning":"The answer is right.","error_identification":"","root_cause_analysis":"","correct_approach":"",` +
		`"key_insight":"` + insight + `","section":"others","bullet_tags":[` + tags + `]}`
}

// shownIDs returns up to most ids of bullets in a Reflector's prompt. Each id is in a JSON object.
func shownIDs(prompt string, most int) []string {
	var ids []string
	for len(ids) < most {
		_, after, ok := strings.Cut(prompt, `{"id":"`)
		if !ok {
			break
		}
		id, rest, ok := strings.Cut(after, `"`)
		if !ok {
			break
		}
		ids = append(ids, id)
		prompt = rest
	}
	return ids
}

// cannedProposals returns a reply that adds every insight of a Curator's prompt. Each insight is on its own line, as a
// JSON object.
func cannedProposals(prompt string) string {
	var ops []string
	for line := range strings.SplitSeq(prompt, "\n") {
		if !strings.HasPrefix(line, `{"number":`) {
			continue
		}
		number, _, _ := strings.Cut(line[len(`{"number":`):], ",")
		_, insight, ok := strings.Cut(line, `"insight":"`)
		if !ok {
			continue
		}
		insight, _, _ = strings.Cut(insight, `"`)
		ops = append(ops, `{"type":"ADD","section":"others","content":"`+insight+`","reflections":[`+number+`]}`)
	}
	return `{"reasoning":"New lessons.","operations":[` + strings.Join(ops, ",") + `]}`
}

package main

import (
	"context"
	"encoding/json"
	"hash/fnv"
	"regexp"

	"debrief/events"
	"debrief/events/chat"
)

// cannedModel answers the Generator and the Reflector without delay. Its replies depend only on the prompt. Each reflection votes for
// up to three of the bullets in the prompt; one in ten also has a lesson.
type cannedModel struct{}

// Complete implements chat.Model.
func (cannedModel) Complete(_ context.Context, p chat.Prompt) (chat.Reply, error) {
	reply := chat.Reply{Model: "canned", Finish: "stop", Usage: chat.Usage{Calls: 1}}
	if p.Name == events.RoleGenerator {
		reply.Text = `{"reasoning":"Six times seven is forty-two.","bullet_ids":[],"final_answer":"42"}`
		return reply, nil
	}
	data, err := json.Marshal(reflectionOn(p.Messages[len(p.Messages)-1].Text))
	reply.Text = string(data)
	return reply, err
}

var bulletID = regexp.MustCompile(`[a-z_]+-\d{5,}`)

// reflectionOn returns the reply to a Reflector's prompt.
func reflectionOn(prompt string) map[string]any {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(prompt))
	seed := hash.Sum64()
	insight := ""
	if seed%10 == 0 {
		insight = newTexts(seed).advice()
	}
	tags := []map[string]string{}
	for _, id := range bulletID.FindAllString(prompt, 3) {
		tags = append(tags, map[string]string{"id": id, "tag": "helpful"})
	}
	return map[string]any{
		"reasoning": "The answer is right.", "error_identification": "", "root_cause_analysis": "", "correct_approach": "",
		"key_insight": insight, "section": "others", "bullet_tags": tags,
	}
}

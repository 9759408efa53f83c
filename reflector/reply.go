package reflector

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

// wireReflection is the reply that the schema asks for.
type wireReflection struct {
	Reasoning           string        `json:"reasoning"`
	ErrorIdentification string        `json:"error_identification"`
	RootCauseAnalysis   string        `json:"root_cause_analysis"`
	CorrectApproach     string        `json:"correct_approach"`
	When                string        `json:"when"`
	KeyInsight          string        `json:"key_insight"`
	Section             string        `json:"section"`
	FurtherInsights     []wireInsight `json:"further_insights"`
	LabelSuspect        string        `json:"label_suspect"`
	BulletTags          []wireTag     `json:"bullet_tags"`
}

type wireInsight struct {
	When    string `json:"when"`
	Insight string `json:"insight"`
	Section string `json:"section"`
}

type wireTag struct {
	ID  string `json:"id"`
	Tag string `json:"tag"`
}

// wireWithRecords is the reply with summaries of the steps.
type wireWithRecords struct {
	wireReflection
	Records []wireRecord `json:"records"`
}

type wireRecord struct {
	Step      int              `json:"step"`
	Synthesis string           `json:"synthesis"`
	Progress  string           `json:"progress"`
	Calls     []wireCallRecord `json:"calls"`
}

type wireCallRecord struct {
	Line      string   `json:"line"`
	Insights  string   `json:"insights"`
	Learning  string   `json:"learning"`
	Relevance string   `json:"relevance"`
	Next      []string `json:"next_suggested_actions"`
}

var (
	reflectionSchema = chat.SchemaOf[wireReflection]()
	recordsSchema    = chat.SchemaOf[wireWithRecords]()
)

// analysis is the parsed reply of a model.
type analysis struct {
	Reasoning           string
	ErrorIdentification string
	RootCauseAnalysis   string
	CorrectApproach     string
	// KeyInsight is empty if there is nothing to learn. Section is the section that the model proposes for it.
	// When is the condition under which it holds, and the screen puts it before the insight.
	KeyInsight string
	When       string
	Section    string
	// LabelSuspect is the reason why the model doubts the outcome, or "".
	LabelSuspect string
	// Lessons are further insights.
	Lessons []events.Lesson
	// Records are summaries of the last steps, for later turns of the session.
	Records []events.Record
	// Tags are votes on bullets in the prompt of the execution, at most one for each bullet.
	Tags []events.BulletTag
	// Ignored lists the parts of the reply that were dropped, one sentence with the reason each.
	Ignored []string
}

var errNotReflection = errors.New("parse reply: no field of a reflection")

// parseReflection parses a reply. It drops votes on bullets that were not in the prompt of the execution, and notes
// them in Ignored. With the error for a missing insight it returns the rest of the reply.
func parseReflection(r chat.Reply, e *events.Execution) (analysis, error) {
	reply, err := chat.ParseObject(r, "key_insight")
	isMissing := errors.As(err, new(*chat.MissingError))
	if err != nil && !isMissing {
		return analysis{}, err
	}
	out := analysis{
		Reasoning:           reply.Text("reasoning"),
		ErrorIdentification: text.UnlessNone(reply.Text("error_identification")),
		RootCauseAnalysis:   text.UnlessNone(reply.Text("root_cause_analysis")),
		CorrectApproach:     text.UnlessNone(reply.Text("correct_approach")),
		When:                text.UnlessNone(reply.Text("when")),
		Section:             text.UnlessNone(reply.Text("section")),
		LabelSuspect:        text.UnlessNone(reply.Text("label_suspect")),
	}
	for _, field := range []string{"key_insight", "further_insights", "extracted_learnings"} {
		raw, _ := reply.Field(field)
		for _, l := range readInsights(raw, out.Section) {
			isKnown := func(known events.Lesson) bool { return known.Content == l.Content }
			switch {
			case out.KeyInsight == "":
				out.KeyInsight, out.Section = l.Content, l.Section
				out.When = cmp.Or(l.When, out.When)
			case l.Content != out.KeyInsight && !slices.ContainsFunc(out.Lessons, isKnown):
				out.Lessons = append(out.Lessons, l)
			}
		}
	}
	tags, _ := reply.Field("bullet_tags")
	out.readTags(tags, e)
	records, _ := reply.Field("records")
	out.readRecords(records, e)
	if isMissing {
		isOther := out.Reasoning+out.CorrectApproach == "" && len(out.Tags) == 0 // such as {"error": …}
		if isOther {
			return analysis{}, errNotReflection
		}
		out.ignore("key_insight: missing, also when asked again")
	}
	return out, err
}

// readTags adds the votes of a list: [{"id": …, "tag": …}], or {"<id>": "<tag>"}. It reads the id as bullet_id, for which chat.Object also
// accepts the name id of the schema.
func (a *analysis) readTags(raw json.RawMessage, e *events.Execution) {
	var list []chat.Object
	if json.Unmarshal(raw, &list) != nil {
		var byID chat.Object
		if json.Unmarshal(raw, &byID) != nil {
			if len(raw) > 0 && string(raw) != "null" {
				a.ignore("bullet_tags: not a list of id and tag")
			}
			return
		}
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			name, _ := json.Marshal(id)
			list = append(list, chat.Object{"id": name, "tag": byID[id]})
		}
	}
	for _, t := range list {
		id := playbook.BulletID(strings.Trim(t.Text("bullet_id"), "[] \t\r\n"))
		vote, ok := parseVote(t.Text("tag"))
		switch {
		case id == "":
			a.ignore("bullet_tags: tag without a bullet id")
		case !ok:
			a.ignore("bullet_tags: tag %q of bullet %q: want helpful, harmful or neutral", excerpt(t.Text("tag"), 40), excerpt(string(id), 80))
		case !e.Outcome.Known():
			a.ignore("bullet_tags: vote on bullet %q: the outcome is unknown", excerpt(string(id), 80))
		case !slices.ContainsFunc(e.Shown, func(b events.ShownBullet) bool { return b.ID == id }):
			a.ignore("bullet_tags: bullet %q was not in the prompt", excerpt(string(id), 80))
		case vote == events.Harmful && !mayFollow(e, id):
			a.ignore("bullet_tags: bullet %q was not followed, so it did no harm", excerpt(string(id), 80))
		case slices.ContainsFunc(a.Tags, func(b events.BulletTag) bool { return b.ID == id }):
			a.ignore("bullet_tags: bullet %q has a vote already", excerpt(string(id), 80))
		default:
			a.Tags = append(a.Tags, events.BulletTag{ID: id, Tag: vote})
		}
	}
}

// mayFollow reports whether an execution may have followed a bullet of its prompt: it cites the bullet, or it cites none at all. An execution
// that cites none may have followed any.
func mayFollow(e *events.Execution, id playbook.BulletID) bool {
	return len(e.Cited) == 0 || slices.Contains(e.Cited, id)
}

// parseVote parses a tag in the spellings that models use.
func parseVote(tag string) (events.Vote, bool) {
	switch strings.ToLower(strings.Trim(tag, " \t\r\n\"'*.")) {
	case "helpful", "helped", "useful", "good", "positive", "+1":
		return events.Helpful, true
	case "harmful", "harmed", "misleading", "wrong", "bad", "negative", "-1":
		return events.Harmful, true
	case "neutral", "none", "irrelevant", "unused", "0":
		return events.Neutral, true
	}
	return "", false
}

// readInsights returns the insights in a field: a text, or a list of texts or objects such as {"insight": …, "section": …}. It reads the
// insight as key_insight, for which chat.Object also accepts the name insight of the schema. section is the default section.
func readInsights(raw json.RawMessage, section string) (all []events.Lesson) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, item := range list {
		l := events.Lesson{Section: section, Content: chat.FieldText(item)}
		var o chat.Object
		if json.Unmarshal(item, &o) == nil && o != nil {
			l.Section = cmp.Or(text.UnlessNone(o.Text("section")), section)
			l.When, l.Content = text.UnlessNone(o.Text("when")), cmp.Or(o.Text("key_insight"), o.Text("content"))
		}
		if l.Content = text.UnlessNone(l.Content); l.Content != "" {
			all = append(all, l)
		}
	}
	return all
}

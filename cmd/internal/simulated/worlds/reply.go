package worlds

import (
	"encoding/json"
	"strings"
)

// Answer is a Generator's reply.
type Answer struct {
	Reasoning   string   `json:"reasoning"`
	BulletIDs   []string `json:"bullet_ids"`
	FinalAnswer string   `json:"final_answer"`
}

// Reflection is a Reflector's reply.
type Reflection struct {
	Reasoning           string `json:"reasoning"`
	ErrorIdentification string `json:"error_identification"`
	RootCauseAnalysis   string `json:"root_cause_analysis"`
	CorrectApproach     string `json:"correct_approach"`
	When                string `json:"when"`
	KeyInsight          string `json:"key_insight"`
	Section             string `json:"section"`
	BulletTags          []Tag  `json:"bullet_tags"`
}

// Tag is a vote on a bullet: helpful, harmful or neutral.
type Tag struct {
	ID  string `json:"id"`
	Tag string `json:"tag"`
}

// Curated is the reply of a Curator or a refiner.
type Curated struct {
	Reasoning  string      `json:"reasoning"`
	Operations []Operation `json:"operations"`
}

// Operation is one change of the playbook. Fields that its type does not use are empty.
type Operation struct {
	Type        string   `json:"type"` // ADD, SAME, UPDATE, MERGE or REMOVE
	BulletID    string   `json:"bullet_id"`
	SourceIDs   []string `json:"source_ids"`
	KeepID      string   `json:"keep_id"`
	Section     string   `json:"section"`
	When        string   `json:"when"`
	Content     string   `json:"content"`
	Reason      string   `json:"reason"`
	Reflections []int    `json:"reflections"` // numbers of the insights
}

// Reduction is a reducer's reply.
type Reduction struct {
	Reasoning string     `json:"reasoning"`
	Decisions []Decision `json:"decisions"`
}

// Decision keeps one proposal and drops others.
type Decision struct {
	Keep    int    `json:"keep"`
	Drop    []int  `json:"drop"`
	Content string `json:"content"`
	Reason  string `json:"reason"`
}

// ReplyJSON encodes a reply. Empty lists are encoded as null if they are nil. It panics if v is not encodable.
func ReplyJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// BreakJSON returns a reply that is not parseable: truncated, or with two keys that lack their closing quote. The draw selects the kind.
func BreakJSON(reply string, draw uint64) string {
	if draw%2 == 0 {
		return reply[:len(reply)/2]
	}
	return strings.Replace(reply, `":`, ":", 2)
}

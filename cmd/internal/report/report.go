// Package report is what a run over a data set leaves behind: one Report as JSON for programs and as a page for people, and
// the lists beside it, one JSON object a line.
//
// Everything in a Report but Run, Timing and Cost is the same for the same data, settings and seed, however often the
// run was interrupted: programs compare what is left when those three are taken out.
package report

import (
	"time"

	"debrief/events"
	"debrief/playbook"
)

// Format is the version of the files. Append only.
const Format = 1

// Report is one run.
type Report struct {
	Format   int       `json:"format"`
	Mode     string    `json:"mode"` // "offline", "online" or "executions"
	Settings []Setting `json:"settings"`
	Data     []Data    `json:"data"`

	// Points are the curve, in the order in which they were measured.
	Points []Point `json:"points"`
	Epochs []Epoch `json:"epochs"`
	// Before and After are the test set without what was learned and with the best of it; nil without a test set.
	Before *Score `json:"before,omitempty"`
	After  *Score `json:"after,omitempty"`
	Paired *Pair  `json:"paired,omitempty"` // After against Before

	// Against is the playbook that a run over recorded executions is compared with; nil of other runs.
	Against *Comparison `json:"against,omitempty"`

	Best    Book   `json:"best"`
	Final   Book   `json:"final"`
	Stopped string `json:"stopped,omitempty"` // why it ended before its last epoch

	Bullets    []Bullet       `json:"bullets"`    // of the final playbook
	Operations map[string]int `json:"operations"` // of the Curator, by kind
	Rejected   map[string]int `json:"rejected"`   // what the Curator turned down, by reason's beginning
	Losses     []Loss         `json:"losses"`     // samples that came to nothing

	// Unlearned counts the reflections that are stored and not learned from: no reply of the Curator's model was usable.
	Unlearned int `json:"unlearned,omitempty"`

	Run    Run    `json:"run"`
	Timing Timing `json:"timing"`
	Cost   Cost   `json:"cost"`
}

// Setting is what the run was asked to do, in the words of the command line.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Data is a file that was read.
type Data struct {
	Set     string `json:"set"`  // "train", "validation", "test"
	File    string `json:"file"` // without its folder
	SHA256  string `json:"sha256"`
	Samples int    `json:"samples"`
	Unread  int    `json:"unread"` // lines that could not be read
}

// Point is one measurement of the curve.
type Point struct {
	Epoch int    `json:"epoch"`
	Step  int    `json:"step"` // training samples so far, in all epochs
	Set   string `json:"set"`  // what was answered: "train" (one batch), "validation" or "test"
	Score Score  `json:"score"`
	Book  Book   `json:"book"` // that answered
}

// Score is how well a set of samples was answered.
type Score struct {
	N        int     `json:"n"`        // answered and judged
	Right    int     `json:"right"`    // with the label success
	Accuracy float64 `json:"accuracy"` // right of N, 0 to 1
	Mean     float64 `json:"mean"`     // of the scores, 0 to 1
	Unjudged int     `json:"unjudged"` // answered, and nobody knows how well
	Lost     int     `json:"lost"`     // not answered
}

// Pair compares two ways to answer the same samples.
type Pair struct {
	N          int     `json:"n"`          // samples that both have a judgement of
	Difference float64 `json:"difference"` // of accuracy, in -1 to 1
	Low        float64 `json:"low"`        // 95 % interval of it
	High       float64 `json:"high"`
	Wins       int     `json:"wins"` // right now and wrong before
	Losses     int     `json:"losses"`
	P          float64 `json:"p"` // of so uneven wins and losses by chance, two-sided
}

// Comparison says what the best playbook has in common with another one. Each bullet that generators get to see counts
// once: those of the best one as Same, Alike or OnlyHere, those of the other as OnlyThere where no such bullet is like them.
type Comparison struct {
	Book      string   `json:"book"` // the other one
	Version   uint64   `json:"playbook_version"`
	Bullets   int      `json:"bullets"`    // of the other one
	Same      int      `json:"same"`       // of equal wording, or on what the same rule counts
	Alike     int      `json:"alike"`      // nearly the same, as the Curator tells near duplicates
	OnlyHere  int      `json:"only_here"`  // in the best playbook
	OnlyThere int      `json:"only_there"` // in the other one
	Here      []string `json:"here"`       // contents of OnlyHere, the first MostCompared
	There     []string `json:"there"`
}

// MostCompared bounds the contents that a Comparison has of each playbook.
const MostCompared = 20

// Epoch is one pass over the training set.
type Epoch struct {
	Epoch      int    `json:"epoch"`
	Train      Score  `json:"train"`                // as answered, before each batch was learned from
	Validation *Score `json:"validation,omitempty"` // at its end
	Book       Book   `json:"book"`                 // at its end
}

// Book is a playbook at a version.
type Book struct {
	Version   uint64 `json:"version"`
	StateHash string `json:"state_hash"`
	Bullets   int    `json:"bullets"`
	Tokens    int    `json:"tokens"` // estimated
	Epoch     int    `json:"epoch"`
	Step      int    `json:"step"`
}

// Bullet is a bullet of the final playbook and what was done with it.
type Bullet struct {
	ID      playbook.BulletID `json:"id"`
	Section string            `json:"section"`
	Content string            `json:"content"`
	Status  string            `json:"status"`
	Helpful int               `json:"helpful"`
	Harmful int               `json:"harmful"`
	Neutral int               `json:"neutral"`
	Shown   int               `json:"shown"` // training samples that it was shown in
	Cited   int               `json:"cited"` // of these, that named it
	Right   int               `json:"right"` // of those shown, that were right
}

// Loss is a sample without an outcome, or without a place in what was learned.
type Loss struct {
	Set    string `json:"set"`
	Sample string `json:"sample"`
	Epoch  int    `json:"epoch"`
	Reason string `json:"reason"`
}

// Sample is one answer; samples.jsonl holds one a line, in the order of points and then of the data.
type Sample struct {
	Set      string       `json:"set"`   // "train", "validation", "test"
	Phase    string       `json:"phase"` // "before", "epoch 1", "step 200", "after"
	Epoch    int          `json:"epoch"`
	Step     int          `json:"step"`
	Index    int          `json:"index"` // in its file
	ID       string       `json:"id"`
	Question string       `json:"question"` // its beginning
	Target   string       `json:"target,omitempty"`
	Answer   string       `json:"answer"`
	Label    events.Label `json:"label"`
	Score    float64      `json:"score"`
	Feedback string       `json:"feedback,omitempty"`
	Rounds   int          `json:"rounds"`
	Version  uint64       `json:"playbook_version"`
	Lost     string       `json:"lost,omitempty"`
}

// Operation is one change that the Curator made; operations.jsonl holds one a line.
type Operation struct {
	Version uint64            `json:"playbook_version"`
	Kind    string            `json:"kind"`
	Bullet  playbook.BulletID `json:"bullet_id,omitempty"`
	Section string            `json:"section,omitempty"`
	Content string            `json:"content,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	// Rejected says that it was turned down, for this reason.
	Rejected string `json:"rejected,omitempty"`
}

// Run is what names the run and where it was made.
type Run struct {
	Name    string    `json:"name"`
	Book    string    `json:"book"`
	Model   string    `json:"model"`
	From    string    `json:"from,omitempty"` // book and version that it was forked from
	Begun   time.Time `json:"begun"`
	Ended   time.Time `json:"ended"`
	Resumed int       `json:"resumed"` // times that it went on after an interruption
	Debrief string    `json:"debrief"` // version of the program
}

// Timing is how long it took.
type Timing struct {
	Seconds    float64 `json:"seconds"`    // that a runner was at work
	PerSecond  float64 `json:"per_second"` // training samples
	Learning   float64 `json:"learning"`   // seconds of it
	Evaluating float64 `json:"evaluating"`
}

// Cost is what was asked of models.
type Cost struct {
	Generator Usage `json:"generator"`
	Reflector Usage `json:"reflector"`
	Curator   Usage `json:"curator"`
}

// Usage is calls, tokens and dollars.
type Usage struct {
	Calls        int     `json:"calls"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Dollars      float64 `json:"dollars"`
}

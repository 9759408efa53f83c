// Package report has the results of a run over a data set: one Report as JSON, and further lists with one JSON object on each
// line. It knows no page: the console shows a report.
//
// All parts of a Report except Run, Timing and Cost are the same for the same data, settings and seed, even after
// interruptions. Programs compare reports without these three parts.
//
// The package also computes the intervals and p-values of a report (stats.go), for other measurements, too.
package report

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// Format is the version of the files.
const Format = 1

// Report is the result of one run.
type Report struct {
	Format   int       `json:"format"`
	Mode     string    `json:"mode"` // "offline", "online" or "executions"
	Settings []Setting `json:"settings"`
	Data     []Data    `json:"data"`

	// Points are the learning curve, in the order of measurement.
	Points []Point `json:"points"`
	Epochs []Epoch `json:"epochs"`
	// Snapshots are the playbook after each interval of --snapshot-every. The version of a snapshot has the name
	// step-<step>.
	Snapshots []Book `json:"snapshots,omitempty"`
	// Before and After are the scores on the test set before learning and with the best playbook; nil without a test
	// set.
	Before *Score `json:"before,omitempty"`
	After  *Score `json:"after,omitempty"`
	Paired *Pair  `json:"paired,omitempty"` // After against Before

	// Against compares the best playbook with the playbook of the recorded executions; nil in other modes.
	Against *Comparison `json:"against,omitempty"`

	Best    Book   `json:"best"`
	Final   Book   `json:"final"`
	Stopped string `json:"stopped,omitempty"` // reason for an end before the last epoch; empty without one

	Bullets    []Bullet       `json:"bullets"`    // of the final playbook
	Operations map[string]int `json:"operations"` // of the Curator, by kind
	Rejected   map[string]int `json:"rejected"`   // rejected operations of the Curator, by playbook.Reason
	Losses     []Loss         `json:"losses"`     // samples without an answer, or whose reflection had no effect

	// Wrong are the wrong answers of one measurement.
	Wrong WrongAnswers `json:"wrong"`
	// Models counts the answers by the model that gave them.
	Models []ModelAnswers `json:"models"`

	// Unlearned counts stored reflections that were not learned from, because no reply of the Curator's model was
	// usable.
	Unlearned int `json:"unlearned,omitempty"`

	Run    Run    `json:"run"`
	Timing Timing `json:"timing"`
	Cost   Cost   `json:"cost"`
}

// New returns a report without results. Its lists are not nil, so that none is null in JSON.
func New() Report {
	return Report{
		Format: Format, Settings: []Setting{}, Data: []Data{}, Points: []Point{}, Epochs: []Epoch{}, Bullets: []Bullet{}, Losses: []Loss{},
		Models: []ModelAnswers{}, Operations: map[string]int{}, Rejected: map[string]int{}, Wrong: WrongAnswers{First: []WrongAnswer{}},
	}
}

// Learned reports whether the best playbook has something that the run learned.
func (r *Report) Learned() bool {
	return r.Best.Step > 0 && r.Best.Bullets > 0 && len(r.Operations) > 0
}

// Simulated reports whether the model was simulated.
func (r *Report) Simulated() bool { return strings.Contains(r.Run.Model, "simulated") }

// Fingerprint returns the SHA-256 of the report without the parts that differ between two runs with the same data, settings and seed:
// run, timing and cost.
func (r *Report) Fingerprint() (string, error) {
	same := *r
	same.Run = Run{}
	same.Timing = Timing{}
	same.Cost = Cost{}
	data, err := marshal(same)
	return fmt.Sprintf("%x", sha256.Sum256(data)), err
}

// Setting is a setting of the command line.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Data is an input file.
type Data struct {
	Set     string `json:"set"`  // "train", "validation", "test"
	File    string `json:"file"` // without its folder
	SHA256  string `json:"sha256"`
	Samples int    `json:"samples"`
	Unread  int    `json:"invalid_lines"` // lines that could not be parsed
}

// Point is one measurement of the learning curve.
type Point struct {
	Epoch int    `json:"epoch"`
	Step  int    `json:"step"` // training samples so far, in all epochs
	Set   string `json:"set"`  // "train" (one batch), "validation" or "test"
	Score Score  `json:"score"`
	Book  Book   `json:"book"` // the playbook in the prompts
}

// Score is the result on a set of samples. Until Finish it is a sum: Mean is the sum of the scores, and Accuracy is 0.
type Score struct {
	N        int     `json:"n"`          // samples with an answer and a label
	Right    int     `json:"right"`      // with the label success
	Accuracy float64 `json:"accuracy"`   // right of N, 0 to 1
	Mean     float64 `json:"mean"`       // of the scores, 0 to 1
	Unjudged int     `json:"unlabelled"` // samples with an answer but no label
	Lost     int     `json:"lost"`       // samples without an answer
}

// Count adds an answer to a sum.
func (s *Score) Count(label events.Label, score float64) {
	if label == events.Unknown || label == "" {
		s.Unjudged++
		return
	}
	s.N++
	s.Mean += score
	if label == events.Success {
		s.Right++
	}
}

// Plus returns the total of two sums.
func (s Score) Plus(t Score) Score {
	return Score{N: s.N + t.N, Right: s.Right + t.Right, Mean: s.Mean + t.Mean, Unjudged: s.Unjudged + t.Unjudged, Lost: s.Lost + t.Lost}
}

// Finish returns the score of a sum.
func (s Score) Finish() Score {
	if s.N > 0 {
		s.Accuracy = float64(s.Right) / float64(s.N)
		s.Mean /= float64(s.N)
	}
	return s
}

// MeanText returns the mean score for a sentence, or "" if no answer is partly right: then the accuracy says the same.
func (s Score) MeanText() string {
	if math.Abs(s.Mean-s.Accuracy) < 0.0005 {
		return ""
	}
	return fmt.Sprintf("mean score %.3f", s.Mean)
}

// Interval returns the accuracy with its 95 % interval.
func (s Score) Interval() Estimate { return Share(s.Right, s.N) }

// Comparison compares the best playbook with another one. Each bullet shown to generators counts once: bullets of the
// best playbook as Same, Alike or OnlyHere, and bullets of the other one without a match as OnlyThere.
type Comparison struct {
	Book      string   `json:"book"` // the other one
	Version   uint64   `json:"playbook_version"`
	Bullets   int      `json:"bullets"`         // of the other one
	Same      int      `json:"same"`            // equal wording
	Alike     int      `json:"near_duplicates"` // near duplicates, by the Curator's test
	OnlyHere  int      `json:"only_here"`       // in the best playbook
	OnlyThere int      `json:"only_there"`      // in the other one
	Here      []string `json:"texts_only_here"` // contents of the first MaxCompared bullets of OnlyHere
	There     []string `json:"texts_only_there"`
}

// MaxCompared limits the contents in a Comparison, for each playbook.
const MaxCompared = 20

// Epoch is one pass over the training set.
type Epoch struct {
	Epoch      int    `json:"epoch"`
	Train      Score  `json:"train"`                // of the answers before learning from each batch
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

// Bullet is a bullet of the final playbook with its use in the run.
type Bullet struct {
	ID      playbook.BulletID `json:"id"`
	Section string            `json:"section"`
	Content string            `json:"content"`
	Status  string            `json:"status"`
	Next    string            `json:"next,omitempty"` // the step of the gate for a bullet that is not shown to every task, see gate.Row
	Helpful int               `json:"helpful"`
	Harmful int               `json:"harmful"`
	Neutral int               `json:"neutral"`
	Shown   int               `json:"shown"` // training samples with the bullet in the prompt
	Cited   int               `json:"cited"` // of these, samples whose answer cites the bullet
	Right   int               `json:"right"` // of Shown, samples with the label success
}

// Loss is a sample without an answer, or whose reflection had no effect.
type Loss struct {
	Set    string `json:"set"`
	Sample string `json:"sample"`
	Epoch  int    `json:"epoch"`
	Reason string `json:"reason"`
}

// WrongAnswers lists the wrong answers of one measurement: the test set with the best playbook, else the best
// measurement of the validation set, else the training samples of the last epoch.
type WrongAnswers struct {
	Set   string        `json:"set"`
	Phase string        `json:"phase"` // as in Sample
	Of    int           `json:"n"`     // samples with a label
	Wrong int           `json:"wrong"` // labelled samples without the label success
	First []WrongAnswer `json:"first"` // at most MaxWrong
}

// MaxWrong limits the wrong answers in a report. samples.jsonl has all.
const MaxWrong = 25

// WrongAnswer is a wrong answer and the bullets in its prompt.
type WrongAnswer struct {
	Sample
	Bullets []events.ShownBullet `json:"bullets"`
	Cited   []playbook.BulletID  `json:"cited"` // bullets that the answer cites
}

// ModelAnswers counts the answers of one model.
type ModelAnswers struct {
	Model   string `json:"model"`
	Answers int    `json:"answers"`
	N       int    `json:"n"`     // with a label
	Right   int    `json:"right"` // with the label success
}

// Sample is one answer. samples.jsonl contains one on each line, in the order of points and then of the data.
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
	Model    string       `json:"model,omitempty"` // that answered, as the server named it
	Lost     string       `json:"lost,omitempty"`  // reason why the answer or its effect is missing
}

// BulletUse has the bullets in the prompt of one sample, and the outcome. bullet_uses.jsonl contains one on each line, in the
// order of samples.jsonl.
type BulletUse struct {
	Set     string              `json:"set"`
	Phase   string              `json:"phase"`
	Epoch   int                 `json:"epoch"`
	Step    int                 `json:"step"`
	Index   int                 `json:"index"`
	ID      string              `json:"id"`
	Version uint64              `json:"playbook_version"`
	Shown   []playbook.BulletID `json:"shown"`
	Cited   []playbook.BulletID `json:"cited"` // by the answer
	Label   events.Label        `json:"label"`
	Score   float64             `json:"score"`
}

// Operation is one operation of the Curator. operations.jsonl contains one on each line.
type Operation struct {
	Version uint64            `json:"playbook_version"`
	Kind    string            `json:"kind"`
	Bullet  playbook.BulletID `json:"bullet_id,omitempty"`
	Section string            `json:"section,omitempty"`
	Content string            `json:"content,omitempty"`
	Code    playbook.Reason   `json:"code,omitempty"`
	Reason  string            `json:"reason,omitempty"`
	// Rejected is the reason for a rejection as a sentence. Code is then the code of the rejection.
	Rejected string `json:"rejected,omitempty"`
}

// Run identifies the run and its circumstances.
type Run struct {
	Name    string    `json:"name"`
	Book    string    `json:"book"`
	Model   string    `json:"model"`          // of the answers; several are separated by commas
	From    string    `json:"from,omitempty"` // book and version that it was forked from
	Begun   time.Time `json:"started"`
	Ended   time.Time `json:"ended"`
	Resumed int       `json:"resumed"` // number of resumptions after an interruption
	Debrief string    `json:"debrief"` // version of the program
}

// Timing is the duration of the run.
type Timing struct {
	Seconds    float64 `json:"seconds"`    // working time of all processes
	PerSecond  float64 `json:"per_second"` // training samples
	Learning   float64 `json:"learning"`   // in seconds
	Evaluating float64 `json:"evaluating"`
}

// Cost is the model usage by role.
type Cost struct {
	Generator Usage `json:"generator"`
	Reflector Usage `json:"reflector"`
	Curator   Usage `json:"curator"`
	// PerBullet is the cost of the run for each bullet that it added; nil if it added none.
	PerBullet *BulletCost `json:"per_added_bullet,omitempty"`
}

// BulletCost is the cost of all roles and the working time, divided by the number of added bullets.
type BulletCost struct {
	Bullets int     `json:"bullets"` // number of added ones
	Calls   float64 `json:"calls"`
	Tokens  float64 `json:"tokens"` // input and output
	Seconds float64 `json:"seconds"`
	Dollars float64 `json:"dollars"`
}

// NewBulletCost divides a cost and a duration in seconds by a number of bullets. It returns nil without bullets.
func NewBulletCost(c Cost, seconds float64, bullets int) *BulletCost {
	if bullets < 1 {
		return nil
	}
	all, n := c.Total(), float64(bullets)
	return &BulletCost{
		Bullets: bullets, Calls: float64(all.Calls) / n, Tokens: float64(all.InputTokens+all.OutputTokens) / n, Seconds: seconds / n, Dollars: all.Dollars / n,
	}
}

// Total is the usage of all roles.
func (c *Cost) Total() Usage { return c.Generator.Plus(c.Reflector).Plus(c.Curator) }

// Usage is calls, tokens and dollars.
type Usage struct {
	Calls        int     `json:"calls"`
	InputTokens  int     `json:"input_tokens"`
	OutputTokens int     `json:"output_tokens"`
	Dollars      float64 `json:"dollars"`
	Seconds      float64 `json:"seconds"` // of the calls; concurrent calls add up
}

// Plus returns the sum of two usages.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		Calls: u.Calls + v.Calls, InputTokens: u.InputTokens + v.InputTokens, OutputTokens: u.OutputTokens + v.OutputTokens,
		Dollars: u.Dollars + v.Dollars, Seconds: u.Seconds + v.Seconds,
	}
}

// UsageOf returns the usage of calls to a model.
func UsageOf(u chat.Usage) Usage {
	return Usage{Calls: u.Calls, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Dollars: u.Cost, Seconds: u.Duration.Seconds()}
}

package streams

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/config"
)

// Limit is a kind of limit of a stream or bucket.
type Limit string

// The limits. At its size a stream refuses new messages. At its number of values a cache drops the oldest ones.
const (
	LimitAge    Limit = "age"
	LimitSize   Limit = "size"
	LimitValues Limit = "values"
)

// The least limits that can be chosen. 0 always means no limit.
const (
	minAge    = time.Hour
	minSize   = Size(64 << 20) // one blob
	minValues = 1000
)

// Setting is one limit of one stream. Its name is also the name of its flag: executions-age.
type Setting struct {
	Name  string
	Value int64 // nanoseconds, bytes or values; 0 means no limit

	stream string
	limit  Limit
}

// NameOf returns the name of the settings of a stream: "openruns" for KV_openruns.
func NameOf(stream string) string {
	name := strings.TrimPrefix(strings.TrimPrefix(stream, "KV_"), "OBJ_")
	return strings.ToLower(name)
}

// Settings returns all limits that can be chosen, with their defaults.
func Settings() (all []Setting) {
	for _, c := range All(1) {
		for _, limit := range limitsOf(c) {
			all = append(all, Setting{Name: NameOf(c.Name) + "-" + string(limit), Value: get(c, limit), stream: c.Name, limit: limit})
		}
	}
	return all
}

// limitsOf returns the limits of a stream that a person can choose. The log of the playbooks, its redactions, its view and the tombstones
// of erased runs have no age. The number of open runs is fixed, because each gateway divides it among the owners (MaxOpenOfOwner).
func limitsOf(c jetstream.StreamConfig) []Limit {
	switch {
	case c.Name == events.StreamRedactions, c.Name == "KV_"+events.BucketErasures: // small
		return nil
	case c.Name == events.StreamDeltas, c.Name == "KV_"+events.BucketPlaybook:
		return []Limit{LimitSize}
	case c.Name == "KV_"+events.BucketOpen:
		return []Limit{LimitAge}
	case c.Discard == jetstream.DiscardOld:
		return []Limit{LimitAge, LimitValues}
	}
	return []Limit{LimitAge, LimitSize}
}

// get returns a limit of a configuration, 0 for none.
func get(c jetstream.StreamConfig, limit Limit) int64 {
	switch limit {
	case LimitAge:
		return int64(c.MaxAge)
	case LimitSize:
		return max(c.MaxBytes, 0)
	}
	return max(c.MaxMsgs, 0)
}

// set sets a limit of a configuration. The server writes -1 for no size and no number of values.
func set(c *jetstream.StreamConfig, limit Limit, value int64) {
	orUnlimited := value
	if value == 0 {
		orUnlimited = -1
	}
	switch limit {
	case LimitAge:
		c.MaxAge = time.Duration(value)
	case LimitSize:
		c.MaxBytes = orUnlimited
	case LimitValues:
		c.MaxMsgs = orUnlimited
	}
}

// Format returns a limit as a person writes it.
func Format(limit Limit, value int64) string {
	switch limit {
	case LimitAge:
		return Age(value).String()
	case LimitSize:
		return Size(value).String()
	}
	return fmt.Sprint(value)
}

// dependency is a rule for the least age of a stream: the sum of the ages of its users. For example, an open run refers to a blob, then
// its execution does, and then a dead letter.
type dependency struct {
	stream string
	users  []string      // streams whose messages refer to the messages of stream, one after the other
	margin time.Duration // is added to the sum
	why    string
}

// dependencies are the rules of ages. No user of a stream has a rule itself, so one pass satisfies all rules.
var dependencies = []dependency{
	{stream: "KV_" + events.BucketContexts, users: []string{"KV_" + events.BucketOpen}, why: "the report of an open run names its context"},
	{stream: "KV_" + events.BucketRuns, users: []string{events.StreamTasks}, why: "the tasks of a run belong to its progress"},
	{stream: "KV_" + events.BucketCaptures, users: []string{"KV_" + events.BucketOpen, events.StreamExecutions}, why: "feedback finds an execution by the ids of its run, which are stored at its first call"},
	{stream: "KV_" + events.BucketState, users: []string{events.StreamExecutions}, why: "it has the first copies of executions, so that a repeated one counts once"},
	{stream: "KV_" + events.BucketState, users: []string{events.StreamReflections}, why: "it has the first copies of reflections, so that a repeated one counts once"},
	{stream: "KV_" + events.BucketState, users: []string{"KV_" + events.BucketWindow}, why: "it has the marks of the sessions"},
	{stream: Attempts, users: []string{events.StreamTasks}, why: "it has the attempts of stored messages"},
	{stream: Attempts, users: []string{events.StreamExecutions}, why: "it has the attempts of stored messages"},
	{stream: Attempts, users: []string{events.StreamReflections}, why: "it has the attempts of stored messages"},
	{stream: blob.Stream, users: []string{events.StreamTasks, events.StreamDead}, margin: blob.Margin, why: "a task, and then its dead letter, refer to a large payload"},
	{stream: blob.Stream, users: []string{"KV_" + events.BucketOpen, events.StreamExecutions, events.StreamDead}, margin: blob.Margin, why: "an open run, then its execution, and then a dead letter, refer to the description of the agent"},
	{stream: blob.Stream, users: []string{events.StreamReflections, events.StreamDead}, margin: blob.Margin, why: "a reflection, and then its dead letter, refer to a large payload"},
}

// least returns the least age that satisfies a rule. 0 means that the age must have no limit.
func (d dependency) least(ages map[string]time.Duration) time.Duration {
	sum := d.margin
	for _, user := range d.users {
		if ages[user] == 0 {
			return 0
		}
		sum += ages[user]
	}
	return sum
}

// describe returns the sum of a rule: "openruns-age + executions-age + dead-age + 24h".
func (d dependency) describe() string {
	var parts []string
	for _, user := range d.users {
		parts = append(parts, NameOf(user)+"-age")
	}
	if d.margin > 0 {
		parts = append(parts, Age(d.margin).String())
	}
	return strings.Join(parts, " + ")
}

// isShorter reports whether a is the shorter age. 0 means no limit, so it is the longest age.
func isShorter(a, b time.Duration) bool { return a != 0 && (b == 0 || a < b) }

// Step is one change by a setup: a new stream, or new limits of a stream.
type Step struct {
	Stream  string                 `json:"stream"` // its name; for a consumer "consumer <role> of <stream>"
	Create  bool                   `json:"create,omitempty"`
	Changes []Change               `json:"changes,omitempty"`
	Config  jetstream.StreamConfig `json:"-"` // the wanted configuration; empty for a consumer

	shortensAge bool
}

// InOrder returns the steps in an order in which no message ever refers to a deleted one. The streams to which other messages refer come
// last in All, and so in steps. If ages become longer, these streams must change first. If ages become shorter, they must change last.
func InOrder(steps []Step) []Step {
	var longer, shorter []Step
	for _, s := range steps {
		if s.shortensAge {
			shorter = append(shorter, s)
		} else {
			longer = append(longer, s)
		}
	}
	slices.Reverse(longer)
	return append(longer, shorter...)
}

// Change is a limit that a step sets.
type Change struct {
	Setting string `json:"setting"`
	From    string `json:"from,omitempty"` // empty for a new stream
	To      string `json:"to"`             // "0" for no limit
	Why     string `json:"why,omitempty"`  // of an age that follows from others
}

// Plan returns the steps from the existing streams to the chosen limits. Limits that are not chosen do not change, and have their
// defaults in new streams. An age is raised if it is too short for the messages of other streams that refer to this one. If such an age was
// chosen, Plan returns an error of type *config.FieldError with the names of the settings.
func Plan(replicas int, existing []*jetstream.StreamInfo, chosen []Setting) ([]Step, error) {
	p := plan{existing: map[string]*jetstream.StreamInfo{}, reasons: map[string]string{}}
	for _, info := range existing {
		p.existing[info.Config.Name] = info
	}
	for _, c := range All(replicas) {
		if info := p.existing[c.Name]; info != nil {
			c = info.Config
		}
		p.wanted = append(p.wanted, c)
	}
	for _, s := range chosen {
		p.choose(s)
	}
	p.raise()
	if err := p.errs.Join(); err != nil {
		return nil, err
	}
	return p.steps(), nil
}

// plan is a plan in progress.
type plan struct {
	existing map[string]*jetstream.StreamInfo
	wanted   []jetstream.StreamConfig
	chosen   []Setting
	reasons  map[string]string // why an age is raised, by the name of its setting
	errs     config.Errors
}

// choose applies a setting.
func (p *plan) choose(s Setting) {
	all := Settings()
	i := slices.IndexFunc(all, func(x Setting) bool { return x.Name == s.Name })
	if i < 0 {
		p.errs.Add(s.Name, "unknown setting")
		return
	}
	s.stream, s.limit = all[i].stream, all[i].limit
	p.chosen = append(p.chosen, s)
	info, least := p.existing[s.stream], leastOf(s.limit)
	switch {
	case s.Value != 0 && s.Value < least:
		p.errs.Add(s.Name, "must be at least %s, or 0 for no limit, got %s", Format(s.limit, least), Format(s.limit, s.Value))
	case info != nil && s.Value != 0 && s.Value < held(info, s.limit):
		p.errs.Add(s.Name, "must be at least %s, which the stream holds, got %s", Format(s.limit, held(info, s.limit)), Format(s.limit, s.Value))
	default:
		set(p.config(s.stream), s.limit, s.Value)
	}
}

// leastOf returns the least value of a limit.
func leastOf(limit Limit) int64 {
	switch limit {
	case LimitAge:
		return int64(minAge)
	case LimitSize:
		return int64(minSize)
	}
	return minValues
}

// held returns the content of a stream in the unit of a limit: bytes or values. It is 0 for an age, which may always become shorter.
func held(info *jetstream.StreamInfo, limit Limit) int64 {
	switch limit {
	case LimitSize:
		return int64(info.State.Bytes)
	case LimitValues:
		return int64(info.State.Msgs)
	}
	return 0
}

// config returns the wanted configuration of a stream.
func (p *plan) config(stream string) *jetstream.StreamConfig {
	i := slices.IndexFunc(p.wanted, func(c jetstream.StreamConfig) bool { return c.Name == stream })
	return &p.wanted[i]
}

// raise raises each age that is shorter than its rules allow. It adds an error in place of changing a chosen age.
func (p *plan) raise() {
	ages := map[string]time.Duration{}
	for _, c := range p.wanted {
		ages[c.Name] = c.MaxAge
	}
	for _, d := range dependencies {
		least := d.least(ages)
		if !isShorter(ages[d.stream], least) {
			continue
		}
		name := NameOf(d.stream) + "-age"
		if slices.ContainsFunc(p.chosen, func(s Setting) bool { return s.Name == name }) {
			p.errs.Add(name, "must be at least %s, which is %s, because %s; got %s", atLeast(least), d.describe(), d.why, Age(ages[d.stream]))
			continue
		}
		ages[d.stream] = least
		p.config(d.stream).MaxAge = least
		p.reasons[name] = d.describe() + ": " + d.why
	}
}

// atLeast formats the least age of a rule.
func atLeast(age time.Duration) string {
	if age == 0 {
		return "0 (no limit)"
	}
	return Age(age).String()
}

// steps compares the existing streams with the wanted ones.
func (p *plan) steps() (all []Step) {
	for _, c := range p.wanted {
		info := p.existing[c.Name]
		step := Step{Stream: c.Name, Create: info == nil, Config: c}
		for _, limit := range []Limit{LimitAge, LimitSize, LimitValues} {
			name := NameOf(c.Name) + "-" + string(limit)
			to := get(c, limit)
			switch {
			case info == nil && to != 0:
				step.Changes = append(step.Changes, Change{Setting: name, To: Format(limit, to), Why: p.reasons[name]})
			case info != nil && to != get(info.Config, limit):
				step.Changes = append(step.Changes, Change{Setting: name, From: Format(limit, get(info.Config, limit)), To: Format(limit, to), Why: p.reasons[name]})
			}
		}
		step.shortensAge = info != nil && isShorter(c.MaxAge, info.Config.MaxAge)
		if step.Create || len(step.Changes) > 0 {
			all = append(all, step)
		}
	}
	return all
}

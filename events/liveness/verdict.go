package liveness

import (
	"fmt"
	"time"

	"debrief/events/bus"
)

// Level is the health of learning.
type Level string

// The levels.
const (
	Green  Level = "green"
	Yellow Level = "yellow" // an operator should look; no learning is lost
	Red    Level = "red"    // learning has stopped, or waiting messages will be lost
)

// Rank returns 0 for green, 1 for yellow, 2 for red.
func (l Level) Rank() int {
	switch l {
	case Red:
		return 2
	case Yellow:
		return 1
	}
	return 0
}

// Worse returns the worse of two levels.
func Worse(a, b Level) Level {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}

// measurements describe a role at one moment. Durations end at that moment.
type measurements struct {
	Role      string
	Workers   int // running workers
	Unhealthy int // workers that are not healthy

	State   bus.State     // of the workers: running if at least one is
	Reason  string        // of that state; empty if unknown or not public
	InState time.Duration // time in that state
	Waiting string        // why a running worker waits for its model; empty if none does
	// Misconfigured is set if a person must change a setting or the account: the model refuses every request, or has given no useful
	// output since the start.
	Misconfigured bool

	Pending         uint64        // messages without an acknowledgement
	Oldest          time.Duration // age of the oldest pending message
	SinceSuccess    time.Duration // since the last success, or since the first worker started
	P95             time.Duration // of the handling duration
	Learns          bool          // the role is expected to learn from some messages
	SinceLearned    time.Duration // since the last lesson, or since the first worker started
	WithoutLearning uint64        // successes since the last lesson
	DeadLetters     uint64        // since the last success
	Outcomes        uint64        // outcomes of tasks since a bullet was last changed
	Failures        uint64        // failures among Outcomes
	Panics          uint64        // calls of the handler that panicked
	SincePanic      time.Duration // since the last one
	PanicReason     string        // of the last one
	Replies         bus.ReplyStats
	SinceMalformed  time.Duration // since the last malformed reply

	Retention       time.Duration // maximum age in the stream; 0 is unlimited
	Bytes, MaxBytes uint64        // of the stream; 0 is unlimited
	Outdated        string        // dead letter of a newer schema
}

// Problem is the code of a reason for a verdict, for programs.
type Problem string

// The problems.
const (
	NoWorker    Problem = "no-worker"         // no worker of the role runs
	NotRunning  Problem = "not-running"       // the workers are paused or unavailable
	Unhealthy   Problem = "unhealthy-workers" // some workers do not run
	Stalled     Problem = "stalled"           // messages wait, and none has succeeded for too long
	DeadLetters Problem = "dead-letters"      // the last messages became dead letters
	NotLearning Problem = "not-learning"      // successes without a lesson
	NoProgress  Problem = "no-progress"       // tasks fail, and no bullet changes
	Expiring    Problem = "expiring"          // waiting messages will expire
	NearlyFull  Problem = "nearly-full"       // the stream has nearly reached its size limit
	NoBacklog   Problem = "backlog-unknown"   // the server did not report the waiting messages
	Doubts      Problem = "doubted-labels"    // the model doubts many outcomes
	BadReplies  Problem = "bad-replies"       // many replies of the model are malformed
	Outdated    Problem = "outdated"          // a message is of a newer program
	Panicked    Problem = "panicked"          // the handler of the role panicked
	Waits       Problem = "waits-for-model"   // the model is slow, or limits the rate
)

// Verdict is a level with its problems, and one sentence for each of them in the same order.
type Verdict struct {
	Level    Level     `json:"level"`
	Problems []Problem `json:"problems,omitempty"`
	Reasons  []string  `json:"reasons,omitempty"`
}

func (v *Verdict) add(l Level, p Problem, format string, args ...any) {
	v.Level = Worse(v.Level, l)
	v.Problems = append(v.Problems, p)
	v.Reasons = append(v.Reasons, fmt.Sprintf(format, args...))
}

// Floor is the default minimum of the time without a success after which a role with waiting messages is red; see maxWait.
const Floor = time.Minute

// A role that reaches one of these limits is not green.
const (
	// maxWithoutLearning is the number of consecutive successes without a lesson that makes a role yellow.
	maxWithoutLearning = 20
	// maxFailures is the number of failed tasks without a change of a bullet from which a role is not green: it is red if at least
	// half of the tasks failed, and yellow if at least a fifth failed.
	maxFailures = 50
	// maxMalformed is the share of malformed replies in the window (bus.RepliesKept, bus.ReplyAge) that makes a role yellow, if
	// they are at least minMalformed. A role with 10 % malformed replies is always yellow, one with 1 % never.
	maxMalformed = 0.05
	minMalformed = 5
	// maxDoubted is the share of doubted outcomes that makes a role yellow, if they are at least minDoubted.
	maxDoubted = 0.1
	minDoubted = 5
	// maxInvalid is the share of replies that are not usable, also after a repair, that makes a role red, if the window has at
	// least minReplies. This is many more than the five unusable replies of a message that is itself at fault, one for each attempt.
	maxInvalid = 0.5
	minReplies = 40
	// maxGaps is a multiple of the mean time between two malformed replies. After this time without another one, the fault is over:
	// while a fault lasts, a longer gap has a probability of 5 % (e⁻³).
	maxGaps = 3
	// maxDeadLetters is the number of consecutive dead letters that makes a role red. Such a series is not the fault of the
	// messages.
	maxDeadLetters = 5
	// panicAge is how long a panic makes a role yellow. A panic is an error of the program, which a person should report.
	panicAge = time.Hour
	// maxAgeShare and maxBytesShare are the parts of the retention and of the stream's size limit that make a role red.
	maxAgeShare   = 0.5
	maxBytesShare = 0.8
)

// maxPause returns the pause that makes a role red. It is shorter than the floor, because a role pauses only after
// several useless outputs, which also took time.
func maxPause(floor time.Duration) time.Duration { return floor / 2 }

// maxWait returns the maximum time without a success while messages wait.
func maxWait(floor, p95 time.Duration) time.Duration { return max(floor, 3*p95) }

// assess returns the verdict on a role. It does not read the clock.
func assess(m measurements, floor time.Duration) Verdict {
	v := Verdict{Level: Green}
	limit := maxWait(floor, m.P95)
	v.addWorkers(m, floor, limit)
	if m.Workers > 0 {
		v.addResults(m, limit)
		v.addModel(m, limit)
	}
	v.addServer(m)
	return v
}

// isStalled reports whether messages wait, and no message was handled successfully for longer than the limit.
func (m *measurements) isStalled(limit time.Duration) bool {
	mustHandle := m.Pending > 0 && m.State != bus.Serving && m.Waiting == "" // a serving worker has no model and takes no messages
	return mustHandle && min(m.Oldest, m.SinceSuccess) > limit
}

// addWorkers adds the problems of the workers: none runs, they do not take messages, or they wait for the model.
func (v *Verdict) addWorkers(m measurements, floor, limit time.Duration) {
	hasMessages := m.Pending > 0
	switch {
	case m.Workers == 0 && hasMessages && m.Oldest > limit:
		v.add(Red, NoWorker, "no %s runs: %s, the oldest for %s", m.Role, messages(m.Pending), brief(m.Oldest))
	case m.Workers == 0:
		v.add(Yellow, NoWorker, "no %s runs", m.Role)
	case m.State == bus.Serving && hasMessages: // workers without a model take no messages
		v.add(redIf(m.Oldest > limit), NoWorker, "no %s with a model runs: %s, the oldest for %s", m.Role, messages(m.Pending), brief(m.Oldest))
	case m.State != bus.Running && m.State != bus.Serving:
		pausedTooLong := m.State == bus.Paused && m.InState > maxPause(floor)
		l := redIf(m.Misconfigured || m.InState > limit || m.isStalled(limit) || pausedTooLong)
		v.add(l, NotRunning, "%s%s", m.idleText(), because(m.Reason))
	case m.Unhealthy > 0:
		v.add(Yellow, Unhealthy, "%d of %d %s workers are not healthy", m.Unhealthy, m.Workers, m.Role)
	}
	if m.Waiting != "" { // only yellow, because work goes on
		v.add(Yellow, Waits, "the %s waits for its model: %s", m.Role, m.Waiting)
	}
}

// idleText says since when and why the workers take no messages, or only single ones.
func (m *measurements) idleText() string {
	if m.State == bus.Paused {
		return fmt.Sprintf("the %s paused %s ago, because its model gave no usable reply; it tries one message at a time until a reply is usable",
			m.Role, brief(m.InState))
	}
	return fmt.Sprintf("the %s has been %s for %s", m.Role, m.State, brief(m.InState))
}

// redIf returns Red if a problem is severe, else Yellow.
func redIf(isSevere bool) Level {
	if isSevere {
		return Red
	}
	return Yellow
}

// addResults adds the problems of the results: no success, dead letters, nothing learned, or failed tasks.
func (v *Verdict) addResults(m measurements, limit time.Duration) {
	if m.isStalled(limit) {
		v.add(Red, Stalled, "%s, the oldest for %s, and the last success was %s ago: red after %s", messages(m.Pending), brief(m.Oldest), brief(m.SinceSuccess), brief(limit))
	}
	if m.DeadLetters > 0 && m.SinceSuccess > limit {
		v.add(redIf(m.DeadLetters >= maxDeadLetters), DeadLetters, "dead letters since the last success, %s ago: %d", brief(m.SinceSuccess), m.DeadLetters)
	}
	if m.Learns && m.WithoutLearning >= maxWithoutLearning && m.SinceLearned > limit {
		v.add(Yellow, NotLearning, "nothing was learned from the last %d messages, for %s", m.WithoutLearning, brief(m.SinceLearned))
	}
	if m.Failures >= maxFailures && 5*m.Failures >= m.Outcomes {
		v.add(redIf(2*m.Failures >= m.Outcomes), NoProgress, "%d of %d tasks failed, and no bullet was added, changed or retired since", m.Failures, m.Outcomes)
	}
}

// addModel adds the problems of the replies of the model, and the panics of the handler that reads them.
func (v *Verdict) addModel(m measurements, limit time.Duration) {
	r := m.Replies
	isFaultOver := m.SinceMalformed > max(limit, maxGaps*meanGap(r))
	if l := replyLevel(r); l != Green && !isFaultOver {
		v.add(l, BadReplies, "%d of the last %d replies of the model were malformed: %d were repaired, %d were not usable", r.Malformed(), r.Total, r.Repaired, r.Invalid)
	}
	if r.Doubted >= minDoubted && float64(r.Doubted) >= maxDoubted*float64(r.Rated) {
		v.add(Yellow, Doubts, "the model doubts %d of the last %d outcomes: check the evaluator or the people that rate; the reflections have label_suspect", r.Doubted, r.Rated)
	}
	if m.Panics > 0 && m.SincePanic <= panicAge {
		v.add(Yellow, Panicked, "panics of the handler: %d, the last one %s ago: %s; report it as an error of the program", m.Panics, brief(m.SincePanic), m.PanicReason)
	}
}

// addServer adds the problems of the stream and of the dead letters.
func (v *Verdict) addServer(m measurements) {
	if m.Outdated != "" {
		v.add(Red, Outdated, "the %s is outdated: %s", m.Role, m.Outdated)
	}
	if m.Pending == 0 {
		return
	}
	if m.Retention > 0 && float64(m.Oldest) >= maxAgeShare*float64(m.Retention) {
		v.add(Red, Expiring, "waiting messages will expire: the oldest is %s old, the retention is %s", brief(m.Oldest), brief(m.Retention))
	}
	if m.MaxBytes > 0 && float64(m.Bytes) >= maxBytesShare*float64(m.MaxBytes) {
		v.add(Red, NearlyFull, "the stream is nearly full, and %s: %d of %d bytes", messages(m.Pending), m.Bytes, m.MaxBytes)
	}
}

// replyLevel returns the level of a role with these replies of its model. A repaired reply can lack a part, so it counts as
// malformed, but learning goes on.
func replyLevel(r bus.ReplyStats) Level {
	switch {
	case r.Total >= minReplies && float64(r.Invalid) >= maxInvalid*float64(r.Total):
		return Red
	case r.Malformed() >= minMalformed && float64(r.Malformed()) >= maxMalformed*float64(r.Total):
		return Yellow
	}
	return Green
}

// meanGap returns the mean time between two malformed replies, up to the last one.
func meanGap(r bus.ReplyStats) time.Duration {
	return max(r.LastMalformed.Sub(r.First), 0) / time.Duration(max(r.Malformed(), 1))
}

// messages returns the number of waiting messages for a sentence.
func messages(n uint64) string {
	if n == 1 {
		return "1 message waits"
	}
	return fmt.Sprintf("%d messages wait", n)
}

// because returns the end of a sentence with a reason, or "" without one.
func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// brief formats a duration for a sentence.
func brief(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

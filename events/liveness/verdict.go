package liveness

import (
	"fmt"
	"time"

	"debrief/events/bus"
)

// Level is how well learning is. The order is that of worse.
type Level string

// The levels.
const (
	Green  Level = "green"
	Yellow Level = "yellow" // a person should know; no learning is lost
	Red    Level = "red"    // nothing is learned, or what waits will be lost
)

// Rank is 0 for green, 1 for yellow, 2 for red.
func (l Level) Rank() int {
	switch l {
	case Red:
		return 2
	case Yellow:
		return 1
	}
	return 0
}

// Worse is the worse of two levels.
func Worse(a, b Level) Level {
	if b.Rank() > a.Rank() {
		return b
	}
	return a
}

// Facts are what is known of a role at one moment. Durations are up to that moment.
type Facts struct {
	Role    string
	Workers int // that run
	Ailing  int // of those, how many are not at work

	State   bus.State     // of the workers: running when one is
	Reason  string        // of that state, empty when unknown or not for everybody
	InState time.Duration // since when

	Waiting   uint64        // messages not settled
	Oldest    time.Duration // since the oldest of those was stored
	Settled   time.Duration // since a message last went well, or since the first worker began
	P95       time.Duration // of handling
	Learns    bool          // it is expected to find something to learn now and then
	Learned   time.Duration // since something was last learned, or as Settled
	Fruitless uint64        // messages that went well since
	Buried    uint64        // dead letters since one last went well

	Keep            time.Duration // how long the stream keeps a message, 0 for ever
	Bytes, MaxBytes uint64        // of the stream; no limit is 0
}

// Verdict is a level and why, a sentence for each thing that is not well.
type Verdict struct {
	Level   Level    `json:"level"`
	Because []string `json:"because,omitempty"`
}

func (v *Verdict) add(l Level, format string, args ...any) {
	v.Level = Worse(v.Level, l)
	v.Because = append(v.Because, fmt.Sprintf(format, args...))
}

const (
	// Floor is the default of the least patience: below it, quiet says nothing.
	Floor = time.Minute
	// fruitlessMost is how many messages in a row may go well with nothing learned before somebody should look.
	fruitlessMost = 20
	// buriedMost is how many dead letters in a row are not the messages' own fault.
	buriedMost = 5
	// agedShare and fullShare say when what waits is near to being lost: parts of its age and of its stream's bytes.
	agedShare = 0.5
	fullShare = 0.8
)

// pausedMost is how long a role may be paused before it is red. It pauses only after several useless outputs, which took
// their time too.
func pausedMost(floor time.Duration) time.Duration { return floor / 2 }

// Limit is how long work may wait with nothing handled: the floor, or three times what is usual where that is longer.
func Limit(floor, p95 time.Duration) time.Duration { return max(floor, 3*p95) }

// Judge is the verdict on a role. It reads no clock.
func Judge(f Facts, floor time.Duration) Verdict {
	v := Verdict{Level: Green}
	limit := Limit(floor, f.P95)
	waits := f.Waiting > 0
	stalled := waits && min(f.Oldest, f.Settled) > limit

	switch {
	case f.Workers == 0 && waits && f.Oldest > limit:
		v.add(Red, "no %s runs: %s, the oldest for %s", f.Role, messages(f.Waiting), brief(f.Oldest))
	case f.Workers == 0:
		v.add(Yellow, "no %s runs", f.Role)
	case f.State == bus.Outdated:
		v.add(Red, "the %s is outdated%s", f.Role, because(f.Reason))
	case f.State != bus.Running:
		l := Yellow
		if f.InState > limit || stalled || f.State == bus.Paused && f.InState > pausedMost(floor) {
			l = Red
		}
		v.add(l, "the %s is %s for %s%s", f.Role, f.State, brief(f.InState), because(f.Reason))
	case f.Ailing > 0:
		v.add(Yellow, "%d of %d workers of the %s are not at work", f.Ailing, f.Workers, f.Role)
	}
	if f.Workers > 0 && stalled {
		v.add(Red, "%s, the oldest for %s, and none went well for %s: red after %s", messages(f.Waiting), brief(f.Oldest), brief(f.Settled), brief(limit))
	}
	if f.Workers > 0 && f.Buried > 0 && f.Settled > limit {
		l := Yellow
		if f.Buried >= buriedMost {
			l = Red
		}
		v.add(l, "dead letters are all that came of the last %d messages, and none went well for %s", f.Buried, brief(f.Settled))
	}
	if f.Workers > 0 && f.Learns && f.Fruitless >= fruitlessMost && f.Learned > limit {
		v.add(Yellow, "nothing was learned from the last %d messages, for %s", f.Fruitless, brief(f.Learned))
	}
	if waits && f.Keep > 0 && float64(f.Oldest) >= agedShare*float64(f.Keep) {
		v.add(Red, "what waits will expire: the oldest has waited for %s of %s", brief(f.Oldest), brief(f.Keep))
	}
	if waits && f.MaxBytes > 0 && float64(f.Bytes) >= fullShare*float64(f.MaxBytes) {
		v.add(Red, "the stream is nearly full, and %s: %d of %d bytes", messages(f.Waiting), f.Bytes, f.MaxBytes)
	}
	return v
}

func messages(n uint64) string {
	if n == 1 {
		return "1 message waits"
	}
	return fmt.Sprintf("%d messages wait", n)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

// brief is a duration for a person.
func brief(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

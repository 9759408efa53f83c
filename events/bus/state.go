package bus

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// workerState contains the reasons that stop or limit the pulling of messages. mu of roleState guards it.
type workerState struct {
	holding     int   // groups of deliveries that wait for an unavailable dependency
	holdReason  error // the newest reason of a hold
	consumerErr error // why the consumer is missing
	deniedErr   error // the newest denied request since the last delivery

	usefulCount  int                   // messages with useful output since the start
	uselessInRow int                   // useless outputs that were the first of a message, since the last useful output
	failures     map[uint64]failuresOf // by sequence of a message

	paused     bool          // because of useless output
	resumed    chan struct{} // closed when the pause ends
	uselessErr error         // the newest useless output that began or confirmed the pause
	probes     int           // messages tried during this pause
	probeAt    time.Time     // when a probing worker may take its next message
}

// failuresOf has the failures of the model at one message. Each is compared with the later useful output for other messages.
type failuresOf struct {
	useless             int  // number of useless outputs
	usefulAtUseless     int  // usefulCount at the first useless output
	unavailable         bool // the model was unavailable at least once
	usefulAtUnavailable int  // usefulCount when the model was last unavailable
}

// addUseless counts a useless output. usefulCount is that of the worker at this time.
func (f *failuresOf) addUseless(usefulCount int) {
	if f.useless == 0 {
		f.usefulAtUseless = usefulCount
	}
	f.useless++
}

// addUnavailable records that the model was unavailable. usefulCount is that of the worker at this time.
func (f *failuresOf) addUnavailable(usefulCount int) {
	f.unavailable = true
	f.usefulAtUnavailable = usefulCount
}

// maxFailures bounds the messages in workerState.failures. A full map starts empty again.
const maxFailures = 4096

// setFailures stores the failures of a message.
func (s *workerState) setFailures(seq uint64, f failuresOf) {
	if s.failures == nil || len(s.failures) >= maxFailures {
		s.failures = make(map[uint64]failuresOf)
	}
	s.failures[seq] = f
}

// isMessageFault reports whether a message is at fault for useless output: the model gave useful output for another message
// since the first useless output for this one. During a pause no message is at fault.
func (s *workerState) isMessageFault(seq uint64) bool {
	f := s.failures[seq]
	return f.useless > 0 && s.usefulCount > f.usefulAtUseless && !s.paused
}

// probing reports whether the worker limits itself to one message for each probe interval.
func (s *workerState) probing() bool { return s.holding > 0 || s.paused }

// maxPauseInterval is the longest interval between two probes of a pause, in probe intervals: a minute. Messages that need no model wait for a
// probe, too.
const maxPauseInterval = 2

// probeInterval returns the time until the next probe. In a pause it begins with BackoffMin and doubles with each probe. It begins low,
// because the useless outputs before the pause may have followed each other by chance: then the pause should end soon. It doubles, because
// each probe of a model that is of no use costs several calls.
func (s *workerState) probeInterval(p *Policy) time.Duration {
	if !s.paused {
		return p.ProbeInterval
	}
	d := p.BackoffMin
	for range s.probes {
		d = min(2*d, maxPauseInterval*p.ProbeInterval)
	}
	return d
}

// probesToGiveUp is the number of useless probes of a pause after which a model without any useful output counts as unusable. Until
// then the model has failed in several calls of several attempts. So a model that fails in 60 % of its calls counts as unusable only once
// in thousands of starts.
const probesToGiveUp = 1

// isUnusable reports whether the model has given no useful output since the start, also not to the probes of this pause.
func (s *workerState) isUnusable() bool {
	return s.paused && s.usefulCount == 0 && s.probes >= probesToGiveUp
}

// startProbe starts the interval after a probe.
func (s *workerState) startProbe(p *Policy) {
	if s.paused {
		s.probes++
	}
	s.probeAt = time.Now().Add(s.probeInterval(p))
}

// roleState decides whether a worker may pull messages, and sets the health of its role.
type roleState struct {
	*runner
	mu sync.Mutex
	workerState
	openPull jetstream.MessagesContext // the open pull that is not a probe, or nil
}

// setOpenPull sets the open pull; nil means that none is open. The pull is drained when the worker starts to probe, or at once
// if the worker probes already. The pull of a probe itself is not drained: the server might just have sent a message to it,
// and would have to deliver that again.
func (r *roleState) setOpenPull(pulls jetstream.MessagesContext, probe bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.openPull = nil
	if pulls == nil || probe {
		return
	}
	r.openPull = pulls
	if r.probing() {
		pulls.Drain()
	}
}

// recordDelivery starts the next probe interval, and clears the error of a denied request.
func (r *roleState) recordDelivery() {
	r.mu.Lock()
	r.startProbe(&r.policy) // outside a probe this has no effect: only a probing worker reads probeAt
	clearDenied := r.deniedErr != nil
	r.mu.Unlock()
	if clearDenied {
		r.setDenied(nil)
	}
}

// update changes the state of the worker and publishes it to the health of the role. One lock covers both, so that
// of two concurrent changes the newer one is shown.
func (r *roleState) update(f func(*workerState)) {
	r.mu.Lock()
	f(&r.workerState)
	s := &r.workerState
	state, reason := s.health()
	text, loggable := "", ""
	if reason != nil {
		text, loggable = reason.Error(), Loggable(reason)
	}
	isUnusable := state == Paused && s.isUnusable()
	changed := r.conn.Health.set(RoleHealth{Role: r.worker.Role, State: state, Reason: text, Misconfigured: isUnusable || isMisconfigured(reason)})
	if r.openPull != nil && s.probing() {
		r.openPull.Drain() // messages in transit are still accepted
	}
	r.mu.Unlock()
	r.wakeUp()
	if !changed {
		return
	}
	level := r.log.Warn()
	if state == Running {
		level = r.log.Info()
	}
	level.Str("state", string(state)).Str("reason", loggable).Msg("state changed")
}

// health returns the state to show, and its reason: nil for Running. If several reasons apply, the first one in this order is shown.
func (s *workerState) health() (State, error) {
	heldByPause := s.paused && isUseless(s.holdReason)
	switch {
	case s.holding > 0 && !heldByPause:
		return Unavailable, s.holdReason
	case s.consumerErr != nil:
		return Unavailable, s.consumerErr
	case s.deniedErr != nil:
		return Unavailable, s.deniedErr
	case s.paused:
		return Paused, s.uselessErr
	}
	return Running, nil
}

// setConsumerErr sets why the consumer is missing. Nil means that the worker has a consumer.
func (r *roleState) setConsumerErr(err error) {
	r.update(func(s *workerState) { s.consumerErr = err })
}

// setDenied sets that the server denied a pull or an acknowledgement; the server does not answer these requests. Nil
// clears it.
func (r *roleState) setDenied(err error) { r.update(func(s *workerState) { s.deniedErr = err }) }

// clearDeniedPull clears the error of a denied pull. Call it when the server has accepted a pull without a message for it. The
// error of a denied acknowledgement remains until the message is redelivered.
func (r *roleState) clearDeniedPull() {
	r.mu.Lock()
	e, ok := errors.AsType[*DeniedError](r.deniedErr)
	isPull := ok && strings.HasPrefix(e.Subject, pullSubject)
	r.mu.Unlock()
	if isPull {
		r.setDenied(nil)
	}
}

// assignFault decides whether useless output, or an unavailable model, is the fault of the message. If so, it returns a messageFaultError,
// and otherwise err. The message is at fault if the model has given useful output for another message meanwhile: since its first useless
// output for this message, or since it was last unavailable for it. (Some prompts crash the server of a model.) The error of an open
// circuit breaker, for which no request was sent, is never the fault of the message. After too many useless outputs the fault is assigned
// to the message without this evidence: perhaps the model is at fault, but the calls for the message must end.
func (r *roleState) assignFault(it *item, err error) error {
	if isUnasked(err) {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.failures[it.d.Seq]
	isFault := false
	switch {
	case isDependencyUnavailable(err):
		isFault = f.unavailable && r.usefulCount > f.usefulAtUnavailable
		f.addUnavailable(r.usefulCount)
	case isUseless(err):
		isFault = r.isMessageFault(it.d.Seq)
		f.addUseless(r.usefulCount)
	default:
		return err
	}
	r.setFailures(it.d.Seq, f)
	if isFault {
		return &messageFaultError{reason: "the model answers other messages, but not this one", err: err}
	}
	if isUseless(err) && f.useless >= r.policy.maxUseless() {
		reason := fmt.Sprintf("no useful reply of the model in %d attempts, and none for other messages meanwhile", f.useless)
		return &messageFaultError{reason: reason, err: err, isFinal: true}
	}
	return err
}

// forgetFailures removes the failures of a finished message.
func (r *roleState) forgetFailures(it *item) {
	r.mu.Lock()
	delete(r.failures, it.d.Seq)
	r.mu.Unlock()
}

// releaseDelay returns the redelivery delay of a useless message that is released during a pause. It grows with the
// number of messages with useless output and with the probe interval, so that at most half of the probes go to them.
func (r *roleState) releaseDelay() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, f := range r.failures {
		if f.useless > 0 {
			n++
		}
	}
	d := 2 * r.probeInterval(&r.policy) * time.Duration(max(n, 1))
	return min(d, 10*r.policy.BackoffMax)
}

// messageFaultError is an error that counts as the fault of the message. It does not unwrap to err, so the worker does not treat it as
// unavailable or useless: it neither holds the message nor pauses.
type messageFaultError struct {
	reason  string // why it is the fault of the message
	err     error
	isFinal bool // no further attempt: the message becomes a dead letter
}

func (f *messageFaultError) Error() string { return f.reason + ": " + f.err.Error() }

// Loggable returns the error without the texts of the model.
func (f *messageFaultError) Loggable() string { return f.reason + ": " + Loggable(f.err) }

func (f *messageFaultError) Discard() bool { return f.isFinal }

// addHolding changes the number of groups of deliveries that wait for an unavailable dependency. reason, unless nil, is shown as the
// reason of the hold. While the number is above 0, the worker pulls no more than a probe.
func (r *roleState) addHolding(n int, reason error) {
	r.update(func(s *workerState) {
		s.holding += n
		if reason != nil {
			s.holdReason = reason
		}
	})
}

// waitHold waits until held messages may be retried, longer after each of the earlier tries. It returns false if the worker stops.
func (r *roleState) waitHold(reason error, tries int) bool {
	if isUseless(reason) {
		return r.waitProbe()
	}
	d := min(r.policy.HoldInterval*time.Duration(1+tries), 10*r.policy.HoldInterval)
	var after interface{ RetryAfter() time.Duration }
	if errors.As(reason, &after) {
		d = max(d, min(after.RetryAfter(), 10*r.policy.HoldInterval))
	}
	return r.wait(d)
}

// waitProbe waits until the pause ends, or until a held message may be the next probe. A message of the stream comes first,
// so that a few held messages do not decide how long the pause lasts. A held message is tried if none came within twice
// the hold interval after the time of the probe. waitProbe returns false if the worker stops.
func (r *roleState) waitProbe() bool {
	for {
		r.mu.Lock()
		s := &r.workerState
		left, resumed := time.Until(s.probeAt.Add(2*r.policy.HoldInterval)), s.resumed
		mayTry := !s.paused || left <= 0
		if s.paused && mayTry {
			s.startProbe(&r.policy)
		}
		r.mu.Unlock()
		if mayTry {
			return r.intake.Err() == nil
		}
		t := time.NewTimer(left)
		select {
		case <-r.intake.Done():
		case <-resumed:
		case <-t.C:
		}
		t.Stop()
		if r.intake.Err() != nil {
			return false
		}
	}
}

// recordResults records the results of handled items. Useful output ends a pause. Repeated useless output starts one. Other
// errors, and messages that were handled without the model, do not count. recordResults reports whether a pause has
// started: the caller then releases the queued messages.
func (r *roleState) recordResults(items []*item) (paused bool) {
	useful := 0
	for _, it := range items {
		if it.result.Err == nil && it.result.ModelUseful {
			useful++
		}
	}
	if useful > 0 {
		r.recordUseful(useful)
	}
	isFirst := true
	for _, it := range items {
		if !isUseless(it.result.Err) {
			continue
		}
		if isFirst { // the messages of a call can have the same output, so it counts once
			r.countUseless(it)
			isFirst = false
		}
		if r.pauseAfter(it) {
			paused = true
		}
	}
	return paused
}

// recordUseful counts messages with useful output, and ends a pause.
func (r *roleState) recordUseful(n int) {
	r.mu.Lock()
	r.usefulCount += n
	r.uselessInRow = 0
	paused := r.paused
	r.mu.Unlock()
	if !paused {
		return
	}
	r.update(func(s *workerState) {
		if s.paused { // no other goroutine has ended the pause meanwhile
			close(s.resumed)
		}
		s.paused, s.resumed = false, nil
	})
}

// countUseless counts the useless output for a message. Only the first output of a message counts, because retries of one message often follow
// each other.
func (r *roleState) countUseless(it *item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failures[it.d.Seq].useless == 0 {
		r.uselessInRow++
	}
}

// pauseAfter starts a pause if the useless output for a message is a repeated one and not the fault of the message. It reports whether a pause
// starts.
func (r *roleState) pauseAfter(it *item) bool {
	r.mu.Lock()
	n := r.uselessInRow
	isRepeated := n >= maxUselessInRow || 2*it.d.Attempt > r.policy.MaxAttempts // in a row, or in half of the attempts at this message
	begins := isRepeated && !r.paused && !r.isMessageFault(it.d.Seq)
	isUnusable := r.isUnusable()
	r.mu.Unlock()
	if isUnusable {
		r.update(func(*workerState) {}) // shows the role as misconfigured
	}
	if !begins {
		return false
	}
	r.update(func(s *workerState) {
		if !s.paused {
			s.paused, s.resumed = true, make(chan struct{})
			s.probes = 0
		}
		s.probeAt = time.Now().Add(s.probeInterval(&r.policy))
		s.uselessErr = fmt.Errorf("the last %s useless: %w", outputs(max(n, 1)), it.result.Err)
	})
	return true
}

// outputs returns the beginning of a sentence about the last n outputs.
func outputs(n int) string {
	if n == 1 {
		return "output of the model was"
	}
	return fmt.Sprintf("%d outputs of the model were", n)
}

// isPaused reports whether the role is paused because of useless output.
func (r *roleState) isPaused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paused
}

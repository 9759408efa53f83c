package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// runOffline replays the training set in epochs.
func (r *run) runOffline(ctx context.Context) error {
	if err := r.measureBefore(ctx); err != nil {
		return err
	}
	for r.epoch = 1; r.epoch <= r.Epochs; r.epoch++ {
		if err := r.runEpoch(ctx); err != nil {
			return err
		}
		if r.report.Stopped != "" {
			break
		}
	}
	r.epoch = min(r.epoch, r.Epochs)
	return r.measureAfter(ctx)
}

// runEpoch replays the training set once.
func (r *run) runEpoch(ctx context.Context) error {
	order := r.order(r.epoch)
	train := report.Score{}
	window := 0
	var stopped string
	var last *report.Score
	for from := 0; from < len(order); from += r.CurateEvery {
		to := min(from+r.CurateEvery, len(order))
		score, err := r.runWindow(ctx, window, order[from:to], from, len(order))
		if err != nil {
			return err
		}
		window++
		train = addScores(train, score)
		last = nil
		if v := r.ValidateEvery; r.Validation != nil && v > 0 && r.step/v > (r.step-(to-from))/v && to < len(order) {
			if last, err = r.validate(ctx); err != nil {
				return err
			}
			if stopped = r.stopReason(); stopped != "" {
				break
			}
		}
	}
	if version := r.version; stopped == "" {
		if err := r.gatherSkipped(ctx); err != nil {
			return err
		}
		if r.version > version { // the last measurement used an older version
			last = nil
		}
	}
	if r.Validation != nil && last == nil {
		var err error
		if last, err = r.validate(ctx); err != nil {
			return err
		}
		if r.epoch < r.Epochs { // the last epoch ends the run in any case
			stopped = r.stopReason()
		}
	}
	now, err := r.bookAt(ctx, r.version)
	if err != nil {
		return err
	}
	r.report.Stopped = stopped
	e := report.Epoch{Epoch: r.epoch, Train: finish(train), Validation: last, Book: now}
	r.report.Epochs = append(r.report.Epochs, e)
	if r.OnEpoch != nil {
		r.OnEpoch(e)
	}
	return nil
}

// stopReason returns the reason to end the run early, "" if there is none.
func (r *run) stopReason() string {
	if r.Patience > 0 && r.sinceBest >= r.Patience {
		return fmt.Sprintf("%d measurements of the validation set without a better one", r.sinceBest)
	}
	return ""
}

// runWindow has samples answered, batch by batch. Then it has the Curator learn from all of them together.
func (r *run) runWindow(ctx context.Context, window int, places []int, from, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.phases[0] += time.Since(began) }()
	var reflections []events.Handle
	score := report.Score{}
	point := report.Point{Epoch: r.epoch, Set: Train}
	var err error
	if point.Book, err = r.bookAt(ctx, r.version); err != nil {
		return score, err
	}
	for at := 0; at < len(places); at += r.Batch {
		batch := places[at:min(at+r.Batch, len(places))]
		tasks := make([]events.Task, len(batch))
		version := r.version
		for i, p := range batch {
			t := r.Train.Tasks[p]
			t.Book, t.Purpose, t.Playbook, t.Rounds, t.Session = r.book, events.Learn, &version, r.Rounds, ""
			t.Origin = events.Origin{Run: r.Name, Epoch: r.epoch, Index: p, Source: t.Origin.Source, Held: true}
			t.ID = taskID(epochPhase(r.epoch), t.ID)
			tasks[i] = t
		}
		fates, err := r.tracker.run(ctx, tasks, func(done int) {
			r.progress(fmt.Sprintf("epoch %d", r.epoch), from+at+done, total)
		})
		if err != nil {
			return score, err
		}
		r.step += len(batch)
		for i := range fates {
			f, sample := &fates[i], &r.Train.Tasks[batch[i]]
			r.recordSample(Train, fmt.Sprintf("epoch %d", r.epoch), sample, batch[i], f, &score)
			if f.reflection != "" {
				reflections = append(reflections, f.reflection)
			}
		}
	}
	if err := r.gather(ctx, window, reflections); err != nil {
		return score, err
	}
	point.Step, point.Score = r.step, finish(score)
	r.addPoint(point)
	r.state.setProgress(r.epoch, r.step, r.version)
	return score, nil
}

// recordSample adds one sample to the report and to a score.
func (r *run) recordSample(set, phase string, sample *events.Task, index int, f *sampleResult, score *report.Score) {
	s := report.Sample{
		Set: set, Phase: phase, Epoch: r.epoch, Step: r.step, Index: index, ID: sample.ID,
		Question: events.TruncateBytes(sample.Question, maxQuestion), Target: events.TruncateBytes(sample.Target, maxAnswer),
		Rounds: f.rounds, Lost: f.lostReason, Label: events.Unknown,
	}
	if f.lostReason != "" {
		r.report.Losses = append(r.report.Losses, report.Loss{Set: set, Sample: sample.ID, Epoch: r.epoch, Reason: f.lostReason})
	}
	if a := f.answer; a == nil {
		score.Lost++
	} else {
		s.Answer, s.Label, s.Score, s.Feedback, s.Version = a.text, a.label, a.score, a.feedback, a.version
		addOutcome(score, a.label, a.score)
	}
	r.samples = append(r.samples, s)
}

// addOutcome adds an outcome to a score. Score.Mean is a sum until finish is called.
func addOutcome(s *report.Score, label events.Label, score float64) {
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

func addScores(a, b report.Score) report.Score {
	return report.Score{N: a.N + b.N, Right: a.Right + b.Right, Mean: a.Mean + b.Mean, Unjudged: a.Unjudged + b.Unjudged, Lost: a.Lost + b.Lost}
}

// finish turns the sums of a score into means.
func finish(s report.Score) report.Score {
	if s.N > 0 {
		s.Accuracy, s.Mean = float64(s.Right)/float64(s.N), s.Mean/float64(s.N)
	}
	return s
}

// author is the author of the edits that a run requests.
const author = "replay"

// editReply is the reply to an edit: a decision or an error.
type editReply struct {
	decision *events.EditReply
	err      error
}

// commit has the Curator apply an edit exactly once. It can be called again with the same id. The decision is nil if
// the edit was applied before or the reply was lost.
func (r *run) commit(ctx context.Context, e *events.Edit) (decision *events.EditReply, err error) {
	e.Book, e.Created = r.book, time.Now().UTC()
	done := r.versionOf(ctx, e.ID)
	if v, err := done(); err != nil || v > 0 {
		return nil, r.waitVisible(ctx, v, err)
	}
	r.editsRequested++
	r.tracker.forgetDead(e.ID) // resuming a run retries an edit that was dead-lettered before
	var asks sync.WaitGroup
	defer asks.Wait()
	asking, answered := context.WithCancel(ctx)
	defer answered()
	ask := func(m bus.PublishOptions) chan editReply {
		replied := make(chan editReply, 1)
		asks.Go(func() {
			d, err := r.request(asking, e, m)
			replied <- editReply{d, err}
		})
		return replied
	}
	replied := ask(bus.PublishOptions{})
	var retry <-chan time.Time
	began, said := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case answer := <-replied:
			// ErrDuplicate: the edit was requested a moment ago, and the reply goes to that request; the log tells
			// when it is applied. errDeadLettered: the dead letter tells whether to submit another copy.
			err := answer.err
			if err != nil && !errors.Is(err, bus.ErrDuplicate) && !errors.Is(err, errDeadLettered) {
				return nil, fmt.Errorf("learn: %w", err)
			}
			decision = answer.decision
			if replied = nil; err != nil { // without an effect, the edit is requested again
				retry = time.After(resendAfter)
			}
		case <-retry:
			replied = ask(bus.PublishOptions{Copy: int(time.Now().UnixNano())})
		case <-time.After(pollInterval):
		}
		v, err := done()
		if err != nil || v > 0 {
			if replied != nil { // only the reply carries the model usage; without a reply the usage is missing in the report
				select {
				case answer := <-replied:
					decision = answer.decision
				case <-time.After(stallNotice):
				case <-ctx.Done():
				}
			}
			return decision, r.waitVisible(ctx, v, err)
		}
		if err := r.tracker.resubmit(ctx); err != nil {
			return nil, err
		}
		if why := r.tracker.deadReason(e.ID); why != "" {
			return nil, fmt.Errorf("learn: %s: %s", e.Reason, why)
		}
		if !said && time.Since(began) > stallNotice && r.OnStall != nil {
			said = true
			r.OnStall(events.RoleCurator)
		}
	}
}

// pollInterval is the time between two reads of the log while a reply is missing. resendAfter is the delay before an
// edit is requested again whose reply went to an interrupted process.
const (
	pollInterval = 100 * time.Millisecond
	resendAfter  = 10 * time.Second
)

// errDeadLettered is returned when the reply to an edit is its dead letter.
var errDeadLettered = errors.New("dead-lettered")

// request sends an edit to the Curator and waits for the decision.
func (r *run) request(ctx context.Context, e *events.Edit, m bus.PublishOptions) (*events.EditReply, error) {
	own := *e // Request sets another reply subject each time
	m.Repeat = true
	reply, err := r.conn.Request(ctx, &own, m)
	if err != nil {
		return nil, err
	}
	if reply.Error != "" {
		return nil, fmt.Errorf("%s: %w: %s", e.Reason, errDeadLettered, reply.Error)
	}
	d := new(events.EditReply)
	if err := events.Unmarshal(reply.Data, d); err != nil {
		return nil, fmt.Errorf("decode decision: %w", err)
	}
	if len(d.Refused) > 0 {
		return nil, fmt.Errorf("%s: rejected by the Curator: %s", e.Reason, strings.Join(d.Refused, "; "))
	}
	r.state.addCuratorUsage(toUsage(d.Usage))
	return d, nil
}

// versionOf returns a function that reads new log records and returns the version in which an edit took effect, 0 if
// there is none yet.
func (r *run) versionOf(ctx context.Context, id events.ID) func() (version uint64, err error) {
	return func() (uint64, error) {
		if v := r.log.editVersions[id]; v > 0 {
			return v, nil
		}
		err := r.log.follow(ctx, r.store, r.book)
		return r.log.editVersions[id], err
	}
}

// waitVisible waits until a version is visible to generators.
func (r *run) waitVisible(ctx context.Context, version uint64, err error) error {
	if err != nil {
		return err
	}
	r.version = version
	return r.follow.Wait(ctx, version)
}

// validate measures the validation set and records the best version.
func (r *run) validate(ctx context.Context) (*report.Score, error) {
	score, err := r.measure(ctx, r.Validation, fmt.Sprintf("step %d", r.step), r.book, r.version)
	if err != nil {
		return nil, err
	}
	if score.N > 0 { // without labels, no version is better than another
		if !r.validated || score.Accuracy > r.bestAcc {
			r.validated, r.bestAcc, r.sinceBest = true, score.Accuracy, 0
			if r.best, err = r.bookAt(ctx, r.version); err != nil {
				return nil, err
			}
		} else {
			r.sinceBest++
		}
	}
	return score, nil
}

// measure has every sample of a set answered with one version of a playbook. Nothing is learned from the answers.
func (r *run) measure(ctx context.Context, set *Set, phase string, b playbook.Book, version uint64) (*report.Score, error) {
	began := time.Now()
	defer func() { r.phases[1] += time.Since(began) }()
	point := report.Point{Epoch: r.epoch, Step: r.step, Set: set.Set}
	switch {
	case b != r.book:
	case version == r.version:
		var err error
		if point.Book, err = r.bookAt(ctx, version); err != nil {
			return nil, err
		}
	default: // the best version, of an earlier step
		point.Epoch, point.Step, point.Book = r.best.Epoch, r.best.Step, r.best
	}
	tasks := make([]events.Task, len(set.Tasks))
	l := r.tracker
	if b != r.book {
		l = r.Source.tracker
	}
	for i, t := range set.Tasks {
		t.Book, t.Purpose, t.Playbook, t.Session = b, events.Evaluate, &version, ""
		t.Origin = events.Origin{Run: r.Name, Epoch: r.epoch, Index: i}
		t.ID = taskID(fmt.Sprintf("%s@%d", set.Set, version), t.ID)
		if b != r.book {
			t.ID = taskID(r.Name, t.ID)
		}
		tasks[i] = t
	}
	fates, err := l.run(ctx, tasks, func(done int) { r.progress(set.Set+", "+phase, done, len(tasks)) })
	if err != nil {
		return nil, err
	}
	var score report.Score
	for i := range fates {
		r.recordSample(set.Set, phase, &set.Tasks[i], i, &fates[i], &score)
	}
	score = finish(score)
	point.Score = score
	r.addPoint(point)
	return &score, nil
}

// measureBefore measures the playbook with which the run begins.
func (r *run) measureBefore(ctx context.Context) (err error) {
	if r.Test != nil {
		if r.report.Before, err = r.measure(ctx, r.Test, "before", r.book, r.version); err != nil {
			return err
		}
	}
	if r.Validation != nil {
		_, err = r.validate(ctx)
	}
	return err
}

// measureAfter measures the best playbook at the end of the run.
func (r *run) measureAfter(ctx context.Context) (err error) {
	if r.report.Final, err = r.bookAt(ctx, r.version); err != nil {
		return err
	}
	if !r.validated {
		r.best = r.report.Final
	}
	r.report.Best, r.report.Unlearned = r.best, len(r.uncovered)
	if r.Test == nil {
		return nil
	}
	r.report.After, err = r.measure(ctx, r.Test, "after", r.book, r.best.Version)
	return err
}

// bookAt describes the run's playbook at a version.
func (r *run) bookAt(ctx context.Context, version uint64) (report.Book, error) {
	d, ok := r.log.byVersion[version]
	if !ok {
		if err := r.log.follow(ctx, r.store, r.book); err != nil {
			return d, err
		}
		if d, ok = r.log.byVersion[version]; !ok {
			return d, &deltalog.VersionError{Book: r.book, Version: version, Newest: r.log.playbook.Version()}
		}
	}
	d.Epoch, d.Step = r.epoch, r.step
	return d, nil
}

func (r *run) addPoint(p report.Point) {
	r.report.Points = append(r.report.Points, p)
	if r.OnPoint != nil {
		r.OnPoint(p)
	}
}

func (r *run) progress(phase string, done, total int) {
	if r.OnProgress == nil {
		return
	}
	p := Progress{Phase: phase, Done: done, Total: total, Step: r.step, Seconds: time.Since(r.began).Seconds()}
	if r.Train != nil {
		p.Samples = len(r.Train.Tasks) * r.Epochs
	}
	g, f, _ := r.tracker.usage()
	c := r.state.curatorUsage()
	for _, u := range []report.Usage{g, f, c} {
		p.Usage = addUsage(p.Usage, u.Calls, u.InputTokens, u.OutputTokens, u.Dollars)
	}
	r.OnProgress(p)
}

func toUsage(u chat.Usage) report.Usage {
	return report.Usage{Calls: u.Calls, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Dollars: u.Cost}
}

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
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// offline goes over the training set in epochs.
func (r *run) offline(ctx context.Context) error {
	if err := r.before(ctx); err != nil {
		return err
	}
	for r.epoch = 1; r.epoch <= r.Epochs; r.epoch++ {
		if err := r.pass(ctx); err != nil {
			return err
		}
		if r.report.Stopped != "" {
			break
		}
	}
	r.epoch = min(r.epoch, r.Epochs)
	return r.after(ctx)
}

// pass is one epoch.
func (r *run) pass(ctx context.Context) error {
	order := r.order(r.epoch)
	train := report.Score{}
	window := 0
	var stopped string
	var last *report.Score
	for from := 0; from < len(order); from += r.CurateEvery {
		to := min(from+r.CurateEvery, len(order))
		score, err := r.window(ctx, window, order[from:to], from, len(order))
		if err != nil {
			return err
		}
		window++
		train = add(train, score)
		last = nil
		if v := r.ValidateEvery; r.Validation != nil && v > 0 && r.step/v > (r.step-(to-from))/v && to < len(order) {
			if last, err = r.validate(ctx); err != nil {
				return err
			}
			if stopped = r.spent(); stopped != "" {
				break
			}
		}
	}
	if version := r.version; stopped == "" {
		if err := r.gatherRest(ctx); err != nil {
			return err
		}
		if r.version > version { // the last measurement was of another playbook
			last = nil
		}
	}
	if r.Validation != nil && last == nil {
		var err error
		if last, err = r.validate(ctx); err != nil {
			return err
		}
		if r.epoch < r.Epochs { // else it ends anyhow
			stopped = r.spent()
		}
	}
	now, err := r.bookAt(ctx, r.version)
	if err != nil {
		return err
	}
	r.report.Stopped = stopped
	e := report.Epoch{Epoch: r.epoch, Train: finish(train), Validation: last, Book: now}
	r.report.Epochs = append(r.report.Epochs, e)
	if r.Epoch != nil {
		r.Epoch(e)
	}
	return nil
}

// spent is why a run ends early, "" if it does not.
func (r *run) spent() string {
	if r.Patience > 0 && r.worse >= r.Patience {
		return fmt.Sprintf("%d measurements of the validation set without a better one", r.worse)
	}
	return ""
}

// window has some samples answered, batch by batch, and then the Curator learn from all of them together.
func (r *run) window(ctx context.Context, window int, places []int, from, total int) (report.Score, error) {
	began := time.Now()
	defer func() { r.phases[0] += time.Since(began) }()
	var held []events.Handle
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
		fates, err := r.ledger.ask(ctx, tasks, func(done int) {
			r.progress(fmt.Sprintf("epoch %d", r.epoch), from+at+done, total)
		})
		if err != nil {
			return score, err
		}
		r.step += len(batch)
		for i := range fates {
			f, sample := &fates[i], &r.Train.Tasks[batch[i]]
			r.note(Train, fmt.Sprintf("epoch %d", r.epoch), sample, batch[i], f, &score)
			if f.held != "" {
				held = append(held, f.held)
			}
		}
	}
	if err := r.gather(ctx, window, held); err != nil {
		return score, err
	}
	point.Step, point.Score = r.step, finish(score)
	r.point(point)
	r.state.reached(r.epoch, r.step, r.version)
	return score, nil
}

// note counts one answer.
func (r *run) note(set, phase string, sample *events.Task, index int, f *fate, score *report.Score) {
	s := report.Sample{
		Set: set, Phase: phase, Epoch: r.epoch, Step: r.step, Index: index, ID: sample.ID,
		Question: events.Beginning(sample.Question, keptQuestion), Target: events.Beginning(sample.Target, keptAnswer),
		Rounds: f.rounds, Lost: f.lost, Label: events.Unknown,
	}
	if f.lost != "" {
		r.report.Losses = append(r.report.Losses, report.Loss{Set: set, Sample: sample.ID, Epoch: r.epoch, Reason: f.lost})
	}
	if a := f.first; a == nil {
		score.Lost++
	} else {
		s.Answer, s.Label, s.Score, s.Feedback, s.Version = a.text, a.label, a.score, a.feedback, a.version
		count(score, a.label, a.score)
	}
	r.samples = append(r.samples, s)
}

// count adds an outcome to a score, whose Mean is a sum until finish.
func count(s *report.Score, label events.Label, score float64) {
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

func add(a, b report.Score) report.Score {
	return report.Score{N: a.N + b.N, Right: a.Right + b.Right, Mean: a.Mean + b.Mean, Unjudged: a.Unjudged + b.Unjudged, Lost: a.Lost + b.Lost}
}

// finish makes a count a score.
func finish(s report.Score) report.Score {
	if s.N > 0 {
		s.Accuracy, s.Mean = float64(s.Right)/float64(s.N), s.Mean/float64(s.N)
	}
	return s
}

// author is who asks for the changes of a run.
const author = "replay"

// reply is the answer to an edit: the decision or an error.
type reply struct {
	decision *events.Decision
	err      error
}

// commit has the Curator do an edit, once, however often it is asked. The decision is nil when the edit was done before, or
// the reply was lost.
func (r *run) commit(ctx context.Context, e *events.Edit) (decision *events.Decision, err error) {
	e.Book, e.Created = r.book, time.Now().UTC()
	done := r.covering(ctx, e.ID)
	if v, err := done(); err != nil || v > 0 {
		return nil, r.committed(ctx, v, err)
	}
	r.asked++
	r.ledger.forgive(e.ID) // that it was given up before: the run goes on because somebody thinks it will do now
	var asks sync.WaitGroup
	defer asks.Wait()
	asking, answered := context.WithCancel(ctx)
	defer answered()
	ask := func(m bus.Marks) chan reply {
		replied := make(chan reply, 1)
		asks.Go(func() {
			d, err := r.ask(asking, e, m)
			replied <- reply{d, err}
		})
		return replied
	}
	replied := ask(bus.Marks{})
	var retry <-chan time.Time
	began, said := time.Now(), false
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case answer := <-replied:
			// Of one that was asked for shortly before, the answer goes to who asked then; the log says the same. Of one that
			// was given up there is a letter, which says whether it is worth another copy.
			err := answer.err
			if err != nil && !errors.Is(err, bus.ErrDuplicate) && !errors.Is(err, errGivenUp) {
				return nil, fmt.Errorf("learn: %w", err)
			}
			decision = answer.decision
			if replied = nil; err != nil { // and when nothing comes of that, it is asked for anew
				retry = time.After(askAgain)
			}
		case <-retry:
			replied = ask(bus.Marks{Copy: int(time.Now().UnixNano())})
		case <-time.After(look):
		}
		v, err := done()
		if err != nil || v > 0 {
			if replied != nil { // it says what the models were asked; without it that is not known, and nothing else is missing
				select {
				case answer := <-replied:
					decision = answer.decision
				case <-time.After(patience):
				case <-ctx.Done():
				}
			}
			return decision, r.committed(ctx, v, err)
		}
		if err := r.ledger.revive(ctx); err != nil {
			return nil, err
		}
		if why := r.ledger.givenUp(e.ID); why != "" {
			return nil, fmt.Errorf("learn: %s: %s", e.Reason, why)
		}
		if !said && time.Since(began) > patience && r.Waiting != nil {
			said = true
			r.Waiting(events.RoleCurator)
		}
	}
}

// How often the log is looked at for an edit whose answer has not come, and after how long one is asked for anew whose
// answer went to a process that was interrupted.
const (
	look     = 100 * time.Millisecond
	askAgain = 10 * time.Second
)

// errGivenUp is returned when who asked for an edit is told that there will be no decision.
var errGivenUp = errors.New("given up")

// ask hands in an edit and waits for the decision on it.
func (r *run) ask(ctx context.Context, e *events.Edit, m bus.Marks) (*events.Decision, error) {
	own := *e // the answer goes to another place each time
	m.Repeat = true
	reply, err := r.conn.Request(ctx, &own, m)
	if err != nil {
		return nil, err
	}
	if reply.Refused != "" {
		return nil, fmt.Errorf("%s: %w: %s", e.Reason, errGivenUp, reply.Refused)
	}
	d := new(events.Decision)
	if err := events.Unmarshal(reply.Data, d); err != nil {
		return nil, fmt.Errorf("read the decision: %w", err)
	}
	if len(d.Refused) > 0 {
		return nil, fmt.Errorf("%s: the Curator refused it: %s", e.Reason, strings.Join(d.Refused, "; "))
	}
	r.state.spent(usageOf(d.Usage))
	return d, nil
}

// covering returns a function that looks for the change which an edit made: its version, 0 while there is none.
func (r *run) covering(ctx context.Context, id events.ID) func() (version uint64, err error) {
	return func() (uint64, error) {
		if v := r.logged.covers[id]; v > 0 {
			return v, nil
		}
		err := r.logged.follow(ctx, r.store, r.book)
		return r.logged.covers[id], err
	}
}

// committed waits until generators see a version.
func (r *run) committed(ctx context.Context, version uint64, err error) error {
	if err != nil {
		return err
	}
	r.version = version
	return r.follow.Wait(ctx, version)
}

// validate asks the validation set and remembers the best playbook.
func (r *run) validate(ctx context.Context) (*report.Score, error) {
	score, err := r.examine(ctx, r.Validation, fmt.Sprintf("step %d", r.step), r.book, r.version)
	if err != nil {
		return nil, err
	}
	if score.N > 0 { // else nothing is known, and no playbook is better for that
		if !r.judged || score.Accuracy > r.bestAcc {
			r.judged, r.bestAcc, r.worse = true, score.Accuracy, 0
			if r.best, err = r.bookAt(ctx, r.version); err != nil {
				return nil, err
			}
		} else {
			r.worse++
		}
	}
	return score, nil
}

// examine asks every sample of a set with one version of a book, and learns nothing.
func (r *run) examine(ctx context.Context, set *Set, phase string, b playbook.Book, version uint64) (*report.Score, error) {
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
	default: // the best one, of some time ago
		point.Epoch, point.Step, point.Book = r.best.Epoch, r.best.Step, r.best
	}
	tasks := make([]events.Task, len(set.Tasks))
	l := r.ledger
	if b != r.book {
		l = r.Source.ledger
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
	fates, err := l.ask(ctx, tasks, func(done int) { r.progress(set.Set+", "+phase, done, len(tasks)) })
	if err != nil {
		return nil, err
	}
	var score report.Score
	for i := range fates {
		r.note(set.Set, phase, &set.Tasks[i], i, &fates[i], &score)
	}
	score = finish(score)
	point.Score = score
	r.point(point)
	return &score, nil
}

// before measures what the run begins with.
func (r *run) before(ctx context.Context) (err error) {
	if r.Test != nil {
		if r.report.Before, err = r.examine(ctx, r.Test, "before", r.book, r.version); err != nil {
			return err
		}
	}
	if r.Validation != nil {
		_, err = r.validate(ctx)
	}
	return err
}

// after measures what the run has come to.
func (r *run) after(ctx context.Context) (err error) {
	if r.report.Final, err = r.bookAt(ctx, r.version); err != nil {
		return err
	}
	if !r.judged {
		r.best = r.report.Final
	}
	r.report.Best, r.report.Unlearned = r.best, len(r.left)
	if r.Test == nil {
		return nil
	}
	r.report.After, err = r.examine(ctx, r.Test, "after", r.book, r.best.Version)
	return err
}

// bookAt describes the run's playbook at a version.
func (r *run) bookAt(ctx context.Context, version uint64) (report.Book, error) {
	d, ok := r.logged.books[version]
	if !ok {
		if err := r.logged.follow(ctx, r.store, r.book); err != nil {
			return d, err
		}
		if d, ok = r.logged.books[version]; !ok {
			return d, &natskv.VersionError{Book: r.book, Version: version, Newest: r.logged.playbook.Version()}
		}
	}
	d.Epoch, d.Step = r.epoch, r.step
	return d, nil
}

func (r *run) point(p report.Point) {
	r.report.Points = append(r.report.Points, p)
	if r.Point != nil {
		r.Point(p)
	}
}

func (r *run) progress(phase string, done, total int) {
	if r.Progress == nil {
		return
	}
	p := Progress{Phase: phase, Done: done, Total: total, Step: r.step, Seconds: time.Since(r.began).Seconds()}
	if r.Train != nil {
		p.Samples = len(r.Train.Tasks) * r.Epochs
	}
	g, f, _ := r.ledger.usage()
	c := r.state.curating()
	for _, u := range []report.Usage{g, f, c} {
		p.Usage = spend(p.Usage, u.Calls, u.InputTokens, u.OutputTokens, u.Dollars)
	}
	r.Progress(p)
}

func usageOf(u chat.Usage) report.Usage {
	return report.Usage{Calls: u.Calls, InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, Dollars: u.Cost}
}

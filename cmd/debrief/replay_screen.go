package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/replay"
	"debrief/cmd/internal/report"
	"debrief/events"
	"debrief/playbook/formats"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// runScreen shows how a run goes: to a person, or as JSON lines.
type runScreen struct {
	*screen
	name string

	mu    sync.Mutex
	last  time.Time
	first replay.Progress // of this process, that rates are counted from
	begun time.Time
}

func newRunScreen(p *replayRun, name string) *runScreen {
	return &runScreen{screen: newScreen(console.Stdout, p.JSON), name: name}
}

// line is an event of --json.
type line struct {
	Event    string           `json:"event"` // "progress", "point", "epoch", "waiting", "skipped", "report"
	Run      string           `json:"run"`
	Progress *replay.Progress `json:"progress,omitempty"`
	Point    *report.Point    `json:"point,omitempty"`
	Epoch    *report.Epoch    `json:"epoch,omitempty"`
	WaitsFor string           `json:"waits_for,omitempty"`

	Reflections int    `json:"reflections,omitempty"` // skipped
	Reason      string `json:"reason,omitempty"`

	Report *report.Report `json:"report,omitempty"`
	Folder string         `json:"folder,omitempty"`
}

// How often progress is shown to a person, and told to a program.
const (
	showEvery = 100 * time.Millisecond
	tellEvery = time.Second
)

func (s *runScreen) progress(p replay.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	every := showEvery
	if s.json {
		every = tellEvery
	}
	if s.begun.IsZero() {
		s.first, s.begun = p, time.Now()
	}
	if time.Since(s.last) < every || !s.json && !s.live {
		return
	}
	s.last = time.Now()
	if s.json {
		_ = writeJSON(s.out, line{Event: "progress", Run: s.name, Progress: &p})
		return
	}
	text := fmt.Sprintf("%s  %d", p.Phase, p.Done)
	if p.Total > 0 {
		text += fmt.Sprintf(" of %d", p.Total)
	}
	text += fmt.Sprintf("  ·  %d samples", p.Step)
	if p.Samples > 0 {
		text += fmt.Sprintf(" of %d", p.Samples)
	}
	took := time.Since(s.begun).Seconds()
	if done := p.Step - s.first.Step; done > 0 && took > 0.5 {
		rate := float64(done) / took
		text += fmt.Sprintf(", %.1f/s", rate)
		if left := p.Samples - p.Step; left > 0 {
			text += ", about " + (time.Duration(float64(left)/rate) * time.Second).Round(time.Second).String() + " left"
		}
	}
	text += fmt.Sprintf("  ·  %d calls, %d tokens", p.Usage.Calls, p.Usage.InputTokens+p.Usage.OutputTokens)
	if p.Usage.Dollars > 0 {
		text += fmt.Sprintf(", $%.2f", p.Usage.Dollars)
	}
	console.Control(s.out, console.ClearLine)
	console.Fprintf(s.out, "%s", text)
}

// clear takes the progress line away.
func (s *runScreen) clear() {
	if s.live {
		console.Control(s.out, console.ClearLine)
	}
}

func (s *runScreen) point(p report.Point) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		_ = writeJSON(s.out, line{Event: "point", Run: s.name, Point: &p})
		return
	}
	if p.Set == replay.Train {
		return
	}
	s.clear()
	console.Fprintf(s.out, "%-10s %-11s %s\n", fmt.Sprintf("%d samples", p.Step), p.Set, scored(p.Score))
}

// scored is a score in words.
func scored(s report.Score) string {
	text := fmt.Sprintf("%5.1f %%  %d of %d", 100*s.Accuracy, s.Right, s.N)
	if s.N == 0 {
		text = "    –    0 of 0"
	}
	if s.Unjudged > 0 {
		text += fmt.Sprintf(", %d that nobody can judge", s.Unjudged)
	}
	if s.Lost > 0 {
		text += fmt.Sprintf(", %d lost", s.Lost)
	}
	return text
}

func (s *runScreen) epoch(e report.Epoch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		_ = writeJSON(s.out, line{Event: "epoch", Run: s.name, Epoch: &e})
		return
	}
	s.clear()
	console.Fprintf(s.out, "epoch %-4d training    %s  ·  %d bullets, version %d\n", e.Epoch, scored(e.Train), e.Book.Bullets, e.Book.Version)
}

// starts are what a person starts so that a role works.
var starts = map[string]string{
	events.RoleGenerator: "generator", events.RoleReflector: "reflector", events.RoleCurator: "curator",
}

func (s *runScreen) waiting(role string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		_ = writeJSON(s.out, line{Event: "waiting", Run: s.name, WaitsFor: role})
		return
	}
	s.clear()
	console.Fprintf(console.Stderr, "Waiting for a %s: nothing has moved for a while. It is safe to interrupt; see 'debrief status'.\n", starts[role])
}

// skipped tells that reflections wait for the next gathering.
func (s *runScreen) skipped(reflections int, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.json {
		_ = writeJSON(s.out, line{Event: "skipped", Run: s.name, Reflections: reflections, Reason: reason})
		return
	}
	s.clear()
	console.Fprintf(console.Stderr, "The Curator's model gave no usable reply on %s (%s): they wait for the next window.\n", plural(reflections, "reflection"), console.Line(reason))
}

// result is the end of a run.
func (s *runScreen) result(out *replay.Outcome, folder string) error {
	s.clear()
	r := out.Report
	if s.json {
		if err := writeJSON(s.out, line{Event: "report", Run: s.name, Report: r, Folder: folder}); err != nil {
			return err
		}
		return ended(out)
	}
	if err := r.Text(s.out); err != nil {
		return err
	}
	console.Fprintf(s.out, "\nThe report and all results are in %s (report.html). The playbook is %q, its best version %d.\n", folder, r.Run.Book, r.Best.Version)
	if r.Best.Version > 0 {
		console.Fprintf(s.out, "To use it: debrief playbook promote %s --to BOOK\n", r.Run.Name)
	}
	return ended(out)
}

// ended is an error where something was lost: lines, samples, or the judgement on an answer, which an evaluator owed.
func ended(out *replay.Outcome) error {
	var all []string
	for _, d := range out.Report.Data {
		if d.Unread > 0 {
			all = append(all, fmt.Sprintf("%s of %s could not be read", plural(d.Unread, "line"), d.File))
		}
	}
	if n := len(out.Report.Losses); n > 0 {
		all = append(all, fmt.Sprintf("%s came to nothing, the first one: %s", plural(n, "sample"), out.Report.Losses[0].Reason))
	}
	if n := out.Report.Unlearned; n > 0 {
		all = append(all, plural(n, "reflection")+" not learned from: no reply of the Curator's model was usable")
	}
	unjudged, why := 0, ""
	for i := range out.Samples {
		s := &out.Samples[i]
		// Recorded executions keep what people said of them, whose word is no evaluator's failure.
		recorded := out.Report.Mode == string(replay.Executions) && s.Set == replay.Train
		if s.Lost == "" && s.Label == events.Unknown && s.Feedback != "" && !recorded {
			if unjudged++; why == "" {
				why = s.Feedback
			}
		}
	}
	if unjudged > 0 {
		all = append(all, fmt.Sprintf("%s could not be judged, the first one: %s", plural(unjudged, "answer"), why))
	}
	if len(all) == 0 {
		return nil
	}
	return app.Exit(app.ExitLosses, errors.New(strings.Join(all, "; ")))
}

// playbooks writes versions of the run's book.
func (p *replayRun) playbooks(ctx context.Context, s *session, folder *report.Folder, name string, versions map[string]uint64) error {
	store := natskv.New(s.JetStream())
	for file, version := range versions {
		at, err := store.At(ctx, book.Book(name), version)
		if err != nil {
			return err
		}
		data, _, err := formats.Write(formats.JSON, name, at.Sorted(), nil)
		if err != nil {
			return err
		}
		if err := folder.Put("playbooks/"+file+".json", data); err != nil {
			return err
		}
	}
	return nil
}

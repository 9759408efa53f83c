package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"debrief/events"
	"debrief/events/client"
	"debrief/playbook"
)

// entryKind is the kind of an entry of the spool.
type entryKind string

const (
	entryReport entryKind = "report" // a run to report
	entryRating entryKind = "rate"   // a verdict on a run that was reported before
)

// entry is a run or a verdict that waits to be handed over. It has neither a token nor the texts of the transcript: the settings and the
// file are read when it is handed over, so a withdrawn consent counts at once.
type entry struct {
	Kind       entryKind      `json:"kind"`
	GitDir     string         `json:"git_dir"`
	Agent      string         `json:"agent"`
	Session    string         `json:"session"`
	TurnNumber int            `json:"turn,omitempty"`
	Transcript string         `json:"transcript,omitempty"`
	Run        run            `json:"run"`
	Ended      time.Time      `json:"ended,omitzero"`
	Outcome    events.Outcome `json:"outcome,omitzero"`

	id string // name of the file
}

// Limits of the spool.
const (
	maxEntries  = 1000                // the oldest ones beyond it are dropped
	maxEntryAge = 14 * 24 * time.Hour // older ones are dropped
)

func (s state) spool() string { return filepath.Join(string(s), "spool") }

// add stores an entry. The name of its file has the order of the entries.
func (s state) add(e *entry) error {
	name := fmt.Sprintf("%020d-%s.json", time.Now().UnixNano(), events.NewID())
	return WriteJSON(filepath.Join(s.spool(), name), e)
}

// waiting returns the files of the entries, oldest first.
func (s state) waiting() []string {
	files, _ := fs.Glob(os.DirFS(s.spool()), "[0-9]*.json") // sorted
	for i, file := range files {
		files[i] = filepath.Join(s.spool(), file)
	}
	return files
}

// HandOver reports the runs and verdicts that wait in a state directory. It returns the number of runs that were reported on this machine so
// far, by all processes. If the server does not answer, or the settings are unreadable, it stops, and the other entries stay for the next
// time. An entry also stays if its token is refused, or after an error on this machine or in the server. Entries that are invalid, older than
// maxEntryAge, or of a repository without consent are dropped. Only one process hands over at a time; another one waits for it.
func HandOver(ctx context.Context, settingsFile, stateDir string) (reported int, err error) {
	s := state(stateDir)
	unlock, err := lock(ctx, filepath.Join(s.spool(), "hand-over"))
	if err != nil {
		return 0, err
	}
	defer unlock()
	s.removeOld(time.Now())
	count := filepath.Join(stateDir, "reported.json")
	if _, err := ReadJSON(count, &reported); err != nil {
		return 0, err
	}
	n, err := s.handOverAll(ctx, settingsFile)
	if n > 0 {
		reported += n
		err = errors.Join(err, WriteJSON(count, reported))
	}
	return reported, err
}

// handOverAll hands over all entries, and returns the number of reported runs.
func (s state) handOverAll(ctx context.Context, settingsFile string) (reported int, err error) {
	var kept error // of an entry that stays
	files := s.waiting()
	for excess := len(files) - maxEntries; excess > 0; excess-- {
		s.log(fmt.Errorf("hand over: dropped: more than %d runs wait", maxEntries))
		_ = os.Remove(files[0])
		files = files[1:]
	}
	newest := map[string]*entry{} // by the id of the run
	for _, file := range files {
		if e, err := readEntry(file); err == nil && e.Kind == entryReport {
			newest[e.Run.ID] = e
		}
	}
	for _, file := range files {
		settings, err := ReadSettings(settingsFile) // again for each entry, because a withdrawn consent counts at once
		if err != nil {
			return reported, err
		}
		isRun, err := s.handOver(ctx, settings, file, newest)
		var failed *client.Error
		isReply := errors.As(err, &failed)
		isTokenRefused := isReply && (failed.Code == http.StatusUnauthorized || failed.Code == http.StatusForbidden)
		isRefused := isReply && !isTokenRefused && (failed.NotFound() || failed.Invalid())
		switch {
		case err == nil:
		case ctx.Err() != nil, isReply && failed.Unavailable():
			return reported, err
		case errors.Is(err, errUnusable), isRefused:
			s.log(fmt.Errorf("hand over: dropped: %w", err))
		default: // such as isTokenRefused, until the user corrects the token; the entries of other repositories go on
			kept = err
			continue
		}
		if isRun {
			reported++
		}
		if err := os.Remove(file); err != nil {
			return reported, err
		}
	}
	return reported, kept
}

// errUnusable is the error of an entry that is dropped.
var errUnusable = errors.New("unusable entry")

// readEntry reads the entry in a file.
func readEntry(file string) (*entry, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	e := &entry{id: filepath.Base(file)}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnusable, err)
	}
	return e, nil
}

// handOver hands over the entry in a file. It returns true if the entry was a run and the run was stored for the first time. If the agent
// stopped several times in a run, the newest entry of the run counts: newest has it by the id of the run.
func (s state) handOver(ctx context.Context, settings *Settings, file string, newest map[string]*entry) (bool, error) {
	e, err := readEntry(file)
	if err != nil {
		return false, err
	}
	r := settings.ofGitDir(e.GitDir)
	info, err := os.Stat(file)
	if err != nil {
		return false, err
	}
	if r == nil || !r.Transcripts || time.Since(info.ModTime()) > maxEntryAge {
		return false, fmt.Errorf("%w: too old, or without the consent of the user", errUnusable)
	}
	if e.Kind == entryRating {
		return false, s.rate(ctx, r, e)
	}
	if last := newest[e.Run.ID]; last != nil {
		last.id = e.id // report makes the id of feedback from it: the same when this file is handed over again
		e = last
	}
	return s.report(ctx, r, e)
}

// lastRun is the run of a session that was reported last.
type lastRun struct {
	ID     string        `json:"id"`
	Handle events.Handle `json:"handle"`
	Rated  bool          `json:"rated,omitempty"` // by the user

	Outcome events.Outcome `json:"outcome,omitzero"` // that was reported last
}

func (s state) lastRunFile(e *entry) string { return s.sessionFile(e.Agent, e.Session) + ".last" }

// report reports a run, and returns true if it is stored for the first time. A run that took back changes is a verdict on the run before it.
// A run that was reported before, because the agent stopped and went on, is not stored again: its new outcome is feedback.
func (s state) report(ctx context.Context, r *Repository, e *entry) (bool, error) {
	report, reverts := reportOf(ctx, e)
	report.Book = playbook.Book(r.Book)
	var before lastRun
	hasBefore, err := ReadJSON(s.lastRunFile(e), &before)
	if err != nil {
		return false, err
	}
	stored, err := r.client().Report(ctx, report)
	if err != nil {
		return false, err
	}
	if hasBefore && before.ID == e.Run.ID {
		if !report.Outcome.Known() || reflect.DeepEqual(report.Outcome, before.Outcome) || before.Rated {
			return false, nil
		}
		if err := s.feedback(ctx, r, "stop-"+e.id, stored.Handle, report.Outcome); err != nil {
			return false, err
		}
		before.Outcome = report.Outcome
		return false, WriteJSON(s.lastRunFile(e), before)
	}
	if hasBefore && reverts && !before.Rated {
		verdict := events.Outcome{Label: events.Failure, Feedback: "the changes were taken back: " + clip(e.Run.Prompt, 300), Inferred: true}
		if err := s.feedback(ctx, r, "revert-"+e.Run.ID, before.Handle, verdict); err != nil {
			return true, err
		}
	}
	return true, WriteJSON(s.lastRunFile(e), lastRun{ID: e.Run.ID, Handle: stored.Handle, Outcome: report.Outcome})
}

// rate sends the user's verdict on a run.
func (s state) rate(ctx context.Context, r *Repository, e *entry) error {
	var last lastRun
	if _, err := ReadJSON(s.lastRunFile(e), &last); err != nil {
		return err
	}
	if last.ID != e.Run.ID {
		return fmt.Errorf("%w: the rated run %s was not reported", errUnusable, e.Run.ID)
	}
	if err := s.feedback(ctx, r, e.id, last.Handle, e.Outcome); err != nil {
		return err
	}
	last.Rated = true
	return WriteJSON(s.lastRunFile(e), last)
}

func (s state) feedback(ctx context.Context, r *Repository, id string, h events.Handle, o events.Outcome) error {
	_, err := r.client().Feedback(ctx, &events.FeedbackRequest{ID: events.Hash("feedback of a hook", id), Execution: h, Outcome: o})
	return err
}

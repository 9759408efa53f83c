package generator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/generator/prompt/assembly"
	"debrief/playbook"
	"debrief/playbook/text"
)

// Summaries selects how older turns of a session are compressed.
type Summaries string

// The ways to compress. With SummariesModel a model writes a summary whenever as many turns have left the window as the window holds.
// Before the first summary, and with SummariesExtract, a context has excerpts of the older turns.
const (
	SummariesModel   Summaries = "model"
	SummariesExtract Summaries = "extract"
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Summaries) UnmarshalText(text []byte) error {
	switch v := Summaries(text); v {
	case SummariesModel, SummariesExtract:
		*s = v
		return nil
	}
	return fmt.Errorf("want model or extract, got %q", text)
}

// summaryInterval returns the number of turns between two summaries. The first summary needs twice as many turns.
func (c Config) summaryInterval() int {
	if c.Window > 0 {
		return int(c.Window)
	}
	return int(assembly.DefaultWindow)
}

// summariser updates the summaries of sessions in the background. No request waits for it.
type summariser struct {
	builder *ContextBuilder
	model   chat.Model

	ctx     context.Context
	stop    context.CancelFunc
	working sync.WaitGroup

	mu   sync.Mutex
	busy map[string]bool // by key: the sessions that are being summarised, with whether a turn was added since the start
}

// maxConcurrentSummaries bounds the sessions that a process summarises at a time. Further sessions wait for their
// next turn.
const maxConcurrentSummaries = 4

func newSummariser(cb *ContextBuilder, m chat.Model) *summariser {
	ctx, stop := context.WithCancel(context.Background())
	return &summariser{builder: cb, model: m, ctx: ctx, stop: stop, busy: make(map[string]bool)}
}

// close stops all summaries and waits for them.
func (s *summariser) close() {
	s.stop()
	s.working.Wait()
}

// turnAdded is called after each turn that is added to a session. It starts a summary in the background.
func (s *summariser) turnAdded(b playbook.Book, owner, session string) {
	key := events.SessionKey(b, owner, session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, busy := s.busy[key]; busy {
		s.busy[key] = true
		return
	}
	if len(s.busy) >= maxConcurrentSummaries || s.ctx.Err() != nil {
		return
	}
	s.busy[key] = false
	s.working.Go(func() {
		for rerun := true; rerun; rerun = s.needsRerun(key) {
			if err := s.summarise(s.ctx, b, owner, session); err != nil && s.ctx.Err() == nil {
				s.builder.conn.Log().Warn().Err(err).Str(events.LogBook, string(b)).Msg("summarise session: using excerpts of older turns")
			}
		}
	})
}

// needsRerun reports whether turns were added during the summary. If not, the session is no longer busy.
func (s *summariser) needsRerun(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[key] && s.ctx.Err() == nil {
		s.busy[key] = false
		return true
	}
	delete(s.busy, key)
	return false
}

// summarise makes a new summary of a session if at least summaryInterval turns before the window are in no summary.
func (s *summariser) summarise(ctx context.Context, b playbook.Book, owner, session string) error {
	followed, err := s.builder.playbooks.get(ctx, b)
	if err != nil {
		return err
	}
	forgotten := followed.forgetting(owner)
	list, _, err := s.builder.windows.Interactions(ctx, b, owner, session)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(i *events.Interaction) bool { return forgotten.isForgotten(i, session) })
	size := s.builder.cfg.summaryInterval()
	if len(list) < 2*size {
		return nil
	}
	stored, err := s.builder.windows.Summary(ctx, b, owner, session)
	if err != nil {
		return err
	}
	before := forgotten.summary(stored, session)
	var uncovered []*events.Interaction
	for _, i := range list[:len(list)-size] {
		if i.Turn > before.Through {
			uncovered = append(uncovered, i)
		}
	}
	if len(uncovered) < size {
		return nil
	}
	summary, reply, err := chat.Ask(ctx, s.model, summaryPrompt(before.Text, uncovered), parseSummary)
	if err == nil && summary == "" {
		err = errNoSummary
	}
	if err != nil {
		return err
	}
	return s.builder.windows.PutSummary(ctx, b, owner, session, &events.Summary{
		Through: uncovered[len(uncovered)-1].Turn, Version: forgotten.version, Text: events.TruncateChars(summary, maxSummary), Model: reply.Model, At: time.Now().UTC(),
	})
}

const maxSummary = 2000 // characters

// wireSummary is the reply that the schema requires.
type wireSummary struct {
	Summary string `json:"summary"`
}

var summarySchema = chat.SchemaOf[wireSummary]()

// Limits of the texts of each turn in a summary prompt, in bytes.
const (
	maxSummaryQuestion = 2000
	maxSummaryAnswer   = 4000
)

// summaryPrompt returns the prompt for a summary of turns, and of the summary before them, if there is one.
func summaryPrompt(before string, turns []*events.Interaction) chat.Prompt {
	var parts []chat.Quotation
	if before != "" {
		parts = append(parts, chat.Quotation{Name: "summary so far", Text: before})
	}
	for _, i := range turns {
		var turn strings.Builder
		fmt.Fprintf(&turn, "user: %s\n", text.Clip(i.Question, maxSummaryQuestion))
		for _, s := range i.Steps {
			for _, c := range s.Calls {
				fmt.Fprintf(&turn, "called %s(%s): %s\n", c.Tool, text.Clip(c.Arguments, 200), text.Clip(c.Output, 400))
			}
			if turn.Len() > 2*maxSummaryAnswer {
				break
			}
		}
		fmt.Fprintf(&turn, "assistant: %s", text.Clip(i.Answer, maxSummaryAnswer))
		parts = append(parts, chat.Quotation{Name: fmt.Sprint("turn ", i.Turn), Text: strings.ToValidUTF8(turn.String(), "\uFFFD")})
	}
	return chat.Prompt{
		Name:     "summary",
		Messages: []chat.Message{{Speaker: chat.System, Text: chat.PromptSummary}, {Speaker: chat.User, Text: chat.Quote(parts)}},
		Schema:   summarySchema,
	}
}

// parseSummary returns the summary in a reply.
func parseSummary(r chat.Reply) (string, error) {
	reply, err := chat.ParseObject(r, errNoSummary.Field)
	summary := reply.Text(errNoSummary.Field)
	if err == nil && summary == "" {
		err = errNoSummary
	}
	return summary, err
}

// errNoSummary reports a reply without a summary.
var errNoSummary = &chat.MissingError{Field: "summary"}

package assembly

import (
	"errors"
	"fmt"
	"strconv"

	"debrief/generator/selection"
)

// Window is how many earlier user turns of a session a context shows: a number of them, AllTurns, or AdaptiveTurns.
type Window int

// The windows that are no number.
const (
	AllTurns      Window = -1 // as many as the limit has room for
	AdaptiveTurns Window = -2 // 3 to 10, by the query
	DefaultWindow Window = 5  // as in swecli
	maxWindow            = 20 // what is kept of a session
)

// UnmarshalText implements encoding.TextUnmarshaler: "5", "none" for no bound, "adaptive".
func (w *Window) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "none":
		*w = AllTurns
	case "adaptive":
		*w = AdaptiveTurns
	default:
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > maxWindow {
			return fmt.Errorf("want 1 to %d user turns, none (for no bound) or adaptive, got %q", maxWindow, s)
		}
		*w = Window(n)
	}
	return nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Texts) UnmarshalText(text []byte) error {
	switch v := Texts(text); v {
	case FinalText, NoText, AllText:
		*t = v
		return nil
	}
	return fmt.Errorf("want final, none or all, got %q", text)
}

// Limits bound a context, in tokens by the estimate of chat.Tokens unless they say otherwise. Zero fields are defaults.
type Limits struct {
	Total        int `name:"context-tokens" help:"Most tokens of a context, instructions and question included." default:"32000" group:"Context"`
	Bullets      int `name:"bullet-tokens" help:"Most tokens of its bullets." default:"4000" group:"Context"`
	Most         int `name:"bullets" help:"Most bullets in it, where not all of the playbook fits." default:"30" group:"Context"`
	Conversation int `name:"conversation-tokens" help:"Tokens of earlier turns and recalled history, half each; adapted to what the conversation is like, from half to four times as many." default:"8000" group:"Context"`
	Items        int `name:"conversation-items" help:"Most messages and tool steps of earlier turns." default:"100" group:"Context"`

	Window      Window `name:"window" help:"Earlier user turns of the session that it shows: 1 to 20, none for no bound, or adaptive." default:"5" group:"Context"`
	Texts       Texts  `name:"window-text" help:"Which of an agent's words earlier turns are shown with: final, none, all." default:"final" group:"Context"`
	Reflections int    `name:"reflections" help:"Recent reflections of the playbook in it, and as many of the session; -1 for none." default:"3" group:"Context"`
	Recall      int    `name:"recall-top" help:"Most older executions recalled for it; -1 for none." default:"10" group:"Context"`

	Weights selection.Weights `embed:"" prefix:"weight-" group:"Context"`
}

// What parts of a context may take that no flag speaks of, in tokens.
const (
	noteTokens     = 800
	recordTokens   = 500
	summaryTokens  = 400
	recoveryTokens = 400
)

// Defaults of Limits. The window of 8,000 tokens and 100 items is adaptive-context's, 30 bullets and 5 turns are swecli's,
// 3 reflections ACE's.
var defaults = Limits{
	Total: 32000, Bullets: 4000, Most: 30, Conversation: 8000, Items: 100,
	Window: DefaultWindow, Texts: FinalText, Reflections: 3, Recall: 10,
}

// WithDefaults fills in what is zero.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct{ field, value *int }{
		{&l.Total, &defaults.Total},
		{&l.Bullets, &defaults.Bullets},
		{&l.Most, &defaults.Most},
		{&l.Conversation, &defaults.Conversation},
		{&l.Items, &defaults.Items},
		{&l.Reflections, &defaults.Reflections},
		{&l.Recall, &defaults.Recall},
	} {
		if *f.field == 0 {
			*f.field = *f.value
		}
	}
	if l.Window == 0 {
		l.Window = defaults.Window
	}
	if l.Texts == "" {
		l.Texts = defaults.Texts
	}
	if l.Weights == (selection.Weights{}) {
		l.Weights = selection.Default
	}
	return l
}

// Validate names the flag of what cannot be.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		flag  string
		value int
	}{
		{"context-tokens", l.Total},
		{"bullet-tokens", l.Bullets},
		{"bullets", l.Most},
		{"conversation-tokens", l.Conversation},
		{"conversation-items", l.Items},
	} {
		if f.value < 0 {
			errs = append(errs, fmt.Errorf("--%s: must be at least 1, got %d", f.flag, f.value))
		}
	}
	if l.Window < AdaptiveTurns || l.Window > maxWindow {
		errs = append(errs, fmt.Errorf("--window: want 1 to %d user turns, none or adaptive, got %d", maxWindow, l.Window))
	}
	if err := l.Weights.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("--weight-…: %w", err))
	}
	return errors.Join(errs...)
}

// LimitError says that a limit has no room for what is never left out: the instructions and the query.
type LimitError struct{ Limit, Need int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit: %d tokens are too few: the instructions and the beginning of the query need %d", e.Limit, e.Need)
}

// Invalid marks it as the request's fault.
func (e *LimitError) Invalid() bool { return true }

package assembly

import (
	"errors"
	"fmt"
	"strconv"

	"debrief/generator/prompt/selection"
)

// Window is the number of earlier user turns in a context, AllTurns or AdaptiveTurns.
type Window int

// Special values of Window.
const (
	AllTurns      Window = -1 // as many as fit into the limit
	AdaptiveTurns Window = -2 // 3 to 10, depending on the query
	DefaultWindow Window = 5  // as in swecli
	maxWindow            = 20 // the stored turns of a session
)

// UnmarshalText implements encoding.TextUnmarshaler: a number, "none" for no limit, or "adaptive".
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

// Limits bound a context, in tokens as estimated by chat.Tokens unless stated otherwise. Zero fields take defaults.
type Limits struct {
	Total        int `name:"context-tokens" help:"Maximum tokens of a context, including instructions and question." default:"32000" group:"Context"`
	Bullets      int `name:"bullet-tokens" help:"Maximum tokens of bullets in a context." default:"4000" group:"Context"`
	MaxBullets   int `name:"bullets" help:"Maximum bullets in a context if not all of the playbook fits." default:"30" group:"Context"`
	Conversation int `name:"conversation-tokens" help:"Tokens of earlier turns and recalled history; adapted to the session (x 0.5 to 4)." default:"8000" group:"Context"`
	Items        int `name:"conversation-items" help:"Maximum messages and tool steps of earlier turns." default:"100" group:"Context"`

	Window      Window `name:"window" help:"Earlier user turns of the session in a context: 1 to 20, none (no limit) or adaptive." default:"5" group:"Context"`
	Texts       Texts  `name:"window-text" help:"Agent texts shown in earlier turns: final, none or all." default:"final" group:"Context"`
	Reflections int    `name:"reflections" help:"Recent reflections in a context, of the playbook and of the session each; -1 for none." default:"3" group:"Context"`
	Recall      int    `name:"recall-top" help:"Maximum older executions recalled for a context; -1 for none." default:"10" group:"Context"`

	Weights selection.Weights `embed:"" prefix:"weight-" group:"Context"`
}

// Budgets of parts without a flag, in tokens.
const (
	noteTokens     = 800
	recordTokens   = 500
	summaryTokens  = 400
	recoveryTokens = 400
)

// Defaults of Limits. Sources: 8,000 tokens and 100 items from adaptive-context, 30 bullets and 5 turns from swecli,
// 3 reflections from ACE.
var defaults = Limits{
	Total: 32000, Bullets: 4000, MaxBullets: 30, Conversation: 8000, Items: 100,
	Window: DefaultWindow, Texts: FinalText, Reflections: 3, Recall: 10,
}

// WithDefaults returns l with defaults in its zero fields.
func (l Limits) WithDefaults() Limits {
	for _, f := range []struct{ field, value *int }{
		{&l.Total, &defaults.Total},
		{&l.Bullets, &defaults.Bullets},
		{&l.MaxBullets, &defaults.MaxBullets},
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

// Validate returns an error for each invalid field; it names the flag.
func (l Limits) Validate() error {
	var errs []error
	for _, f := range []struct {
		flag  string
		value int
	}{
		{"context-tokens", l.Total},
		{"bullet-tokens", l.Bullets},
		{"bullets", l.MaxBullets},
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

// LimitError reports a limit without room for the instructions and the query.
type LimitError struct{ Limit, Need int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit: %d tokens are too few: the instructions and the beginning of the query need %d", e.Limit, e.Need)
}

// Invalid marks the error as an invalid request.
func (e *LimitError) Invalid() bool { return true }

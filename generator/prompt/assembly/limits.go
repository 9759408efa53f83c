package assembly

import (
	"cmp"
	"fmt"
	"strconv"

	"debrief/events/config"
	"debrief/generator/prompt/selection"
)

// Window is the number of earlier user turns in a context, or one of AllTurns and AdaptiveTurns.
type Window int

// Values of Window.
const (
	AllTurns      Window = -1 // as many as fit into the limit
	AdaptiveTurns Window = -2 // depends on the query, within WindowMin and WindowMax
	DefaultWindow Window = 5
	maxWindow            = 20 // number of turns of a session that are stored
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

// Limits bound a context, in tokens as estimated by chat.Tokens unless stated otherwise. Zero fields take defaults.
type Limits struct {
	Total        int // maximum tokens of a context, including instructions and question; default 32,000
	Bullets      int // maximum tokens of bullets; default 4,000
	MaxBullets   int // maximum number of bullets; default -1 for as many as fit
	Conversation int // tokens of earlier turns and recalled history, adapted to the session (x 0.5 to 4); default 8,000
	Items        int // maximum number of messages and tool steps of earlier turns; default 100

	Window      Window // earlier user turns of the session; default DefaultWindow
	WindowMin   int    // minimum turns of AdaptiveTurns; default 3
	WindowMax   int    // maximum turns of AdaptiveTurns; default 10
	Texts       Texts  // agent texts shown in earlier turns; default FinalText
	Reflections int    // recent reflections to consider, of the playbook and of the session each; default 3, -1 for none
	Recall      int    // maximum number of older executions that are recalled; default 10, -1 for none

	// Votes shows the votes of bullets in prompts. Each vote then ends the prefix that a provider can reuse.
	Votes bool
	// Weights order the bullets by a weighted sum; the zero value orders them by rank. See package selection.
	Weights selection.Weights
}

// Budgets of parts that are not configurable, in tokens.
const (
	noteTokens     = 800
	recordTokens   = 500
	summaryTokens  = 400
	recoveryTokens = 400
)

// Defaults of Limits. Sources: 8,000 tokens and 100 items from the project adaptive-context, the window from the coding agent swecli, 3
// reflections from ACE (arXiv:2510.04618). The number of bullets is limited only by their tokens; swecli shows 30.
var defaults = Limits{
	Total: 32000, Bullets: 4000, MaxBullets: -1, Conversation: 8000, Items: 100,
	Window: DefaultWindow, WindowMin: 3, WindowMax: 10, Texts: FinalText, Reflections: 3, Recall: 10,
}

// WithDefaults returns l with defaults in its zero fields.
func (l Limits) WithDefaults() Limits {
	l.Total = cmp.Or(l.Total, defaults.Total)
	l.Bullets = cmp.Or(l.Bullets, defaults.Bullets)
	l.MaxBullets = cmp.Or(l.MaxBullets, defaults.MaxBullets)
	l.Conversation = cmp.Or(l.Conversation, defaults.Conversation)
	l.Items = cmp.Or(l.Items, defaults.Items)
	l.Window = cmp.Or(l.Window, defaults.Window)
	l.WindowMin = cmp.Or(l.WindowMin, defaults.WindowMin)
	l.WindowMax = cmp.Or(l.WindowMax, defaults.WindowMax)
	l.Texts = cmp.Or(l.Texts, defaults.Texts)
	l.Reflections = cmp.Or(l.Reflections, defaults.Reflections)
	l.Recall = cmp.Or(l.Recall, defaults.Recall)
	return l
}

// Validate returns all invalid fields, joined.
func (l Limits) Validate() error {
	l = l.WithDefaults()
	var e config.Errors
	config.AtLeast(&e, "Total", l.Total, 1)
	config.AtLeast(&e, "Bullets", l.Bullets, 1)
	config.AtLeast(&e, "MaxBullets", l.MaxBullets, -1)
	config.AtLeast(&e, "Conversation", l.Conversation, 1)
	config.AtLeast(&e, "Items", l.Items, 1)
	config.AtLeast(&e, "Reflections", l.Reflections, -1)
	config.AtLeast(&e, "Recall", l.Recall, -1)
	if l.Window < AdaptiveTurns || l.Window > maxWindow {
		e.Add("Window", "want 1 to %d user turns, none or adaptive, got %d", maxWindow, l.Window)
	}
	if l.WindowMin < 1 || l.WindowMin > maxWindow {
		e.Add("WindowMin", "must be 1 to %d, got %d", maxWindow, l.WindowMin)
	}
	if l.WindowMax < l.WindowMin || l.WindowMax > maxWindow {
		e.Add("WindowMax", "must be %d (the minimum) to %d, got %d", l.WindowMin, maxWindow, l.WindowMax)
	}
	e.Wrap("Texts", l.Texts.UnmarshalText([]byte(l.Texts)))
	e.Wrap("Weights", l.Weights.Validate())
	return e.Join()
}

// LimitError reports a limit of a context, in tokens, that has no room for the instructions and the query.
type LimitError struct{ Limit, Need int }

func (e *LimitError) Error() string {
	return fmt.Sprintf("limit: %d tokens are too few: the instructions and the beginning of the query need %d", e.Limit, e.Need)
}

// Invalid marks the error as an invalid request.
func (e *LimitError) Invalid() bool { return true }

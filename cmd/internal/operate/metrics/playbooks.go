package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/liveness"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Figures selects the playbooks that the metrics name, and the prices of models. The figures of all other playbooks have the label
// playbook "other". The zero value names no playbook and no price.
//
// Executions, feedback and tokens are counted where they are stored: in the process whose connection stored the event, after the
// acknowledgement, so their sum over all processes is the number of stored events. Retries whose output was not used are in
// debrief_model_tokens_total only.
type Figures struct {
	Playbooks []playbook.Book
	Prices    *PriceTable // nil for no prices
}

// other is the label of playbooks and models that are not named.
const other = "other"

// outcomes are the values of the label outcome. An outcome without a label is unknown.
var outcomes = []events.Label{events.Success, events.Partial, events.Failure, events.Unknown}

var (
	playbookWaiting = describe("debrief_playbook_waiting_messages", "Messages of the playbook that wait for the role, not delivered yet.", "playbook", "role")
	playbookOldest  = describe("debrief_playbook_oldest_seconds", "Age of the oldest waiting message of the playbook; 0 without one.", "playbook", "role")
	bulletsOf       = describe("debrief_playbook_bullets", "Active bullets of the playbook, and those that are cited, stale (not confirmed for 30 days) or contradicting.", "playbook", "kind")
	alarmOf         = describe("debrief_playbook_alarm", "1 if the health of the playbook raises the alarm, else 0; history.Health describes the alarms.", "playbook", "alarm")
	pricesDate      = describe("debrief_prices_date_seconds", "Date of the table of prices, as Unix time.")
)

// playbooks counts the figures of playbooks. It is safe for concurrent use.
type playbooks struct {
	figures                                             Figures
	executions, feedback, tokens, dollars, gatewayCalls *prometheus.CounterVec
}

func newPlaybooks(m *Metrics, f Figures) *playbooks {
	p := &playbooks{
		figures:      f,
		executions:   m.counter("debrief_playbook_executions_total", "Stored executions, by their outcome at that time.", "playbook", "outcome"),
		feedback:     m.counter("debrief_playbook_feedback_total", "Stored feedback, by its outcome.", "playbook", "outcome"),
		tokens:       m.counter("debrief_playbook_tokens_total", "Tokens of stored executions and reflections; cached ones are a part of the input.", "playbook", "role", "model", "direction"),
		dollars:      m.counter("debrief_playbook_cost_dollars_total", "US dollars of stored executions and reflections, of models with a price.", "playbook", "role", "model"),
		gatewayCalls: m.counter("debrief_playbook_gateway_calls_total", "Calls of models through the gateway: captured, or the reason why not.", "playbook", "reason"),
	}
	if f.Prices != nil {
		if date, err := time.Parse(time.DateOnly, f.Prices.Date); err == nil {
			m.register(func(to scrape) { to.Gauge(pricesDate, float64(date.Unix())) })
		}
	}
	for _, b := range append(slices.Clone(f.Playbooks), "") { // from 0, so that the first one is an increase
		for _, outcome := range outcomes {
			p.executions.WithLabelValues(p.label(b), string(outcome))
			p.feedback.WithLabelValues(p.label(b), string(outcome))
		}
		for _, role := range []string{events.RoleGenerator, events.RoleReflector} {
			for _, direction := range []string{"input", "cached", "output"} {
				p.tokens.WithLabelValues(p.label(b), role, other, direction)
			}
		}
	}
	return p
}

// label returns the value of the label playbook.
func (p *playbooks) label(b playbook.Book) string {
	if b != "" && slices.Contains(p.figures.Playbooks, b) {
		return string(b)
	}
	return other
}

// addStored counts a stored event.
func (p *playbooks) addStored(e events.Event) {
	switch e := e.(type) {
	case *events.Execution:
		p.executions.WithLabelValues(p.label(e.Book), outcomeLabel(e.Outcome)).Inc()
		p.addUsage(e.Book, events.RoleGenerator, e.Model, e.Usage)
	case *events.Feedback:
		p.feedback.WithLabelValues(p.label(e.Book), outcomeLabel(e.Outcome)).Inc()
	case *events.Reflection:
		p.addUsage(e.Book, events.RoleReflector, e.Model, e.Usage)
	}
}

// outcomeLabel returns the value of the label outcome.
func outcomeLabel(o events.Outcome) string {
	if slices.Contains(outcomes, o.Label) {
		return string(o.Label)
	}
	return string(events.Unknown)
}

// addUsage counts the tokens of a model, and their price.
func (p *playbooks) addUsage(b playbook.Book, role, model string, u chat.Usage) {
	book, name := p.label(b), other
	if p.figures.Prices != nil {
		if found, ok := p.figures.Prices.Name(model); ok {
			name = found
		}
	}
	for _, n := range []struct {
		direction string
		tokens    int
	}{{"input", u.InputTokens}, {"cached", u.CachedTokens}, {"output", u.OutputTokens}} {
		if n.tokens > 0 {
			p.tokens.WithLabelValues(book, role, name, n.direction).Add(float64(n.tokens))
		}
	}
	if dollars := p.figures.Prices.Cost(model, u); dollars > 0 {
		p.dollars.WithLabelValues(book, role, name).Add(dollars)
	}
}

// collectWaiting writes the waiting messages of each playbook, for the roles of this process. It writes nothing for a role whose state the
// server does not return.
func (p *playbooks) collectWaiting(ctx context.Context, to scrape, conn *bus.Conn, r liveness.Report) {
	if r.Error != "" || len(p.figures.Playbooks) == 0 {
		return
	}
	for i := range r.Roles {
		role := r.Roles[i].Role
		pending, err := conn.Consumers.Pending(ctx, role, p.figures.Playbooks)
		if err != nil {
			continue
		}
		named := uint64(0)
		for j, b := range p.figures.Playbooks {
			ofBook := pending.Books[j]
			named += ofBook.Messages
			to.Gauge(playbookWaiting, float64(ofBook.Messages), string(b), role)
			to.Gauge(playbookOldest, age(r.Time, ofBook.Oldest), string(b), role)
		}
		to.Gauge(playbookWaiting, float64(pending.All-min(pending.All, named)), other, role) // All is counted first, so named can be larger
	}
}

// healthTimeout limits the read of the health of all playbooks in a scrape.
const healthTimeout = 3 * time.Second

// Health exports the health of the named playbooks. The function returns the health of a playbook at each scrape, and nil if it
// cannot be read.
func (m *Metrics) Health(read func(context.Context, playbook.Book) *history.Health) {
	m.register(func(to scrape) {
		ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
		defer cancel()
		for _, b := range m.playbooks.figures.Playbooks {
			h := read(ctx, b)
			if h == nil {
				continue
			}
			for kind, n := range map[string]int{"active": h.Active, "cited": h.Cited, "stale": h.Stale, "contradicting": len(h.Contradictions)} {
				to.Gauge(bulletsOf, float64(n), string(b), kind)
			}
			for _, code := range history.AlarmCodes() {
				isRaised := slices.ContainsFunc(h.Alarms, func(a history.Alarm) bool { return a.Code == code })
				to.Gauge(alarmOf, flag(isRaised), string(b), string(code))
			}
		}
	})
}

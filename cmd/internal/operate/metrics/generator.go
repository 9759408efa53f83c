package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/events"
	"debrief/events/service"
	"debrief/generator"
)

// Generator returns the meter for the configuration of this process's generator.
func (m *Metrics) Generator() generator.Meter {
	stages := m.histogram("debrief_context_seconds", "Duration of building a context: all of it, recall, and assembly.", seconds, "stage")
	messages := m.counter("debrief_window_messages_total", "Messages of the session in contexts, and those left out.", "result")
	tokens := m.counter("debrief_window_tokens_total", "Tokens of the session in contexts, and those left out.", "result")
	duplicates := m.counter("debrief_duplicates_total", "Reports and feedback that were stored before and counted once.", "verb")
	return &generatorMeter{
		reports: duplicates.WithLabelValues(events.VerbReport), feedback: duplicates.WithLabelValues(events.VerbFeedback),
		kept: messages.WithLabelValues(kept), omitted: messages.WithLabelValues(omitted), keptTokens: tokens.WithLabelValues(kept), omittedTokens: tokens.WithLabelValues(omitted),
		share: m.histogram("debrief_window_share", "Share of the tokens of the stored turns that a context keeps.", shares).WithLabelValues(),
		all:   stages.WithLabelValues("all"), recall: stages.WithLabelValues("recall"), assembly: stages.WithLabelValues("assembly"),
		delay: m.histogram("debrief_follower_delay_seconds", "Time from a flush of the view to its arrival in the generator; compares the clocks of two machines.", seconds).WithLabelValues(),
	}
}

// generatorMeter implements generator.Meter.
type generatorMeter struct {
	all, recall, assembly                    prometheus.Observer // durations of the stages of a context
	delay                                    prometheus.Observer // of a follower
	kept, omitted, keptTokens, omittedTokens prometheus.Counter  // of a window
	share                                    prometheus.Observer // of the tokens of a window that are kept
	reports, feedback                        prometheus.Counter  // duplicates
}

// Values of the label result of windows.
const (
	kept    = "kept"
	omitted = "omitted"
)

// shares are the buckets for a share, from 0 to 1.
var shares = []float64{.1, .2, .3, .4, .5, .6, .7, .8, .9, 1}

func (c *generatorMeter) ContextBuilt(took time.Duration) { c.all.Observe(took.Seconds()) }
func (c *generatorMeter) Recalled(took time.Duration)     { c.recall.Observe(took.Seconds()) }
func (c *generatorMeter) Assembled(took time.Duration)    { c.assembly.Observe(took.Seconds()) }
func (c *generatorMeter) PlaybookDelay(ago time.Duration) { c.delay.Observe(ago.Seconds()) }

func (c *generatorMeter) Duplicate(verb string) {
	if verb == events.VerbFeedback {
		c.feedback.Inc()
	} else {
		c.reports.Inc()
	}
}

func (c *generatorMeter) WindowBuilt(s generator.WindowSize) {
	c.kept.Add(float64(s.Messages))
	c.omitted.Add(float64(s.OmittedMessages))
	c.keptTokens.Add(float64(s.Tokens))
	c.omittedTokens.Add(float64(s.OmittedTokens))
	c.share.Observe(s.Share())
}

// SetFollowerLag sets the function that returns by how many versions this process lags the views. Call it before Watch.
func (m *Metrics) SetFollowerLag(lag func(context.Context) (uint64, error)) { m.followerLag = lag }

// verbs are the values of the label verb. A request with an unknown verb counts as none.
var verbs = []string{events.VerbContext, events.VerbReport, events.VerbFeedback, none}

// none is the value of a label for a request without a verb, or without a status.
const none = "none"

// codes are the values of the label code, by status. The key 0 is for all other statuses.
var codes = map[int]string{
	200: "200", 400: "400", 401: "401", 403: "403", 404: "404", 405: "405", 408: "408", 410: "410", 413: "413", 415: "415", 421: "421",
	500: "500", 503: "503", 504: "504",
	0: "other",
}

// Values of the label endpoint.
const (
	NATS = "nats"
	HTTP = "http"
)

// Endpoint returns the function that counts the responses at an endpoint.
func (m *Metrics) Endpoint(name string) service.Observer {
	durations, counts := map[string]prometheus.Observer{}, map[string]map[int]prometheus.Counter{}
	for _, verb := range verbs {
		durations[verb] = m.requestDuration.WithLabelValues(name, verb)
		counts[verb] = map[int]prometheus.Counter{}
		for code, label := range codes {
			counts[verb][code] = m.requests.WithLabelValues(name, verb, label)
		}
	}
	return func(verb string, code int, d time.Duration) {
		if durations[verb] == nil {
			verb = none
		}
		if counts[verb][code] == nil {
			code = 0
		}
		durations[verb].Observe(d.Seconds())
		counts[verb][code].Inc()
	}
}

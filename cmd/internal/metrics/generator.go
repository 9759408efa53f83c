package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/events"
	"debrief/events/service"
	"debrief/generator"
)

// Generator is for the configuration of this process's generator.
func (m *Metrics) Generator() generator.Meter {
	stages := m.histogram("debrief_context_seconds", "Laying out a context: all of it, recall, and assembly.", seconds, "stage")
	return &contexts{
		all: stages.WithLabelValues("all"), recall: stages.WithLabelValues("recall"), assembly: stages.WithLabelValues("assembly"),
		followed: m.histogram("debrief_follower_delay_seconds", "From a flush of the view to a generator that has it.", seconds).WithLabelValues(),
	}
}

// contexts is a generator.Meter.
type contexts struct{ all, recall, assembly, followed prometheus.Observer }

func (c *contexts) Laid(took time.Duration)      { c.all.Observe(took.Seconds()) }
func (c *contexts) Recalled(took time.Duration)  { c.recall.Observe(took.Seconds()) }
func (c *contexts) Assembled(took time.Duration) { c.assembly.Observe(took.Seconds()) }
func (c *contexts) Followed(ago time.Duration)   { c.followed.Observe(ago.Seconds()) }

// Follows says how far what this process holds of playbooks is behind. It is to be said before Watch.
func (m *Metrics) Follows(behind func(context.Context) (uint64, error)) { m.behind = behind }

// verbs are what doors are asked for, none where that is nothing that there is.
var verbs = []string{events.VerbContext, events.VerbReport, events.VerbFeedback, none}

const none = "none"

// codes are how doors answer.
var codes = map[int]string{
	200: "200", 400: "400", 401: "401", 404: "404", 405: "405", 408: "408", 413: "413", 415: "415", 421: "421", 500: "500", 503: "503", 504: "504",
	0: "other",
}

// Doors.
const (
	NATS = "nats"
	HTTP = "http"
)

// Door is told of the answers at a door.
func (m *Metrics) Door(name string) service.Told {
	took, answered := map[string]prometheus.Observer{}, map[string]map[int]prometheus.Counter{}
	for _, verb := range verbs {
		took[verb] = m.took.WithLabelValues(name, verb)
		answered[verb] = map[int]prometheus.Counter{}
		for code, label := range codes {
			answered[verb][code] = m.answered.WithLabelValues(name, verb, label)
		}
	}
	return func(verb string, code int, d time.Duration) {
		if took[verb] == nil {
			verb = none
		}
		if answered[verb][code] == nil {
			code = 0
		}
		took[verb].Observe(d.Seconds())
		answered[verb][code].Inc()
	}
}

package liveness

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"debrief/events/bus"
)

// ContentType is that of what WriteMetrics writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// metric is one of the table in the package's comment. Each returns its samples of a role.
type metric struct {
	name, kind, help string
	samples          func(r Role, now time.Time) []sample
}

type sample struct {
	labels []string // names and values in turn, besides the role
	value  float64
}

func single(v float64) []sample { return []sample{{value: v}} }

// age is how long ago something was; what never was has no sample.
func age(now, t time.Time) []sample {
	if t.IsZero() {
		return nil
	}
	return single(since(now, t).Seconds())
}

var states = []bus.State{bus.Running, bus.Unavailable, bus.Paused, bus.Outdated}

var metrics = []metric{
	{"debrief_role_level", "gauge", "Verdict on the role: 0 green, 1 yellow, 2 red.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Level.rank()))
	}},
	{"debrief_role_state", "gauge", "What the role is doing: 1 for the state that it is in.", func(r Role, _ time.Time) (all []sample) {
		for _, s := range states {
			v := 0.0
			if r.State == s {
				v = 1
			}
			all = append(all, sample{[]string{"state", string(s)}, v})
		}
		return all
	}},
	{"debrief_role_state_seconds", "gauge", "How long it has been in that state.", func(r Role, now time.Time) []sample { return age(now, r.Since) }},
	{"debrief_role_waiting_messages", "gauge", "Messages that wait for the role, not delivered yet.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Work.Pending))
	}},
	{"debrief_role_in_flight_messages", "gauge", "Messages delivered to a worker of the role and not settled.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Work.InFlight))
	}},
	{"debrief_role_oldest_seconds", "gauge", "Age of what has waited longest; 0 when nothing waits.", func(r Role, now time.Time) []sample {
		if r.Work.Oldest.IsZero() {
			return single(0)
		}
		return age(now, r.Work.Oldest)
	}},
	{"debrief_role_settled_seconds", "gauge", "Since a message last went well in this process.", func(r Role, now time.Time) []sample { return age(now, r.Vitals.Settled) }},
	{"debrief_role_learned_seconds", "gauge", "Since that last had an effect in this process.", func(r Role, now time.Time) []sample { return age(now, r.Vitals.Learned) }},
	{"debrief_role_handling_seconds", "summary", "Duration of calls of the handler that went well; quantiles over the last 256.", nil},
	{"debrief_role_results_total", "counter", "What became of deliveries in this process.", func(r Role, _ time.Time) []sample {
		return []sample{
			{[]string{"result", "stored"}, float64(r.Vitals.Stored)},
			{[]string{"result", "handled"}, float64(r.Vitals.Handled)},
			{[]string{"result", "retried"}, float64(r.Vitals.Retried)},
			{[]string{"result", "dead"}, float64(r.Vitals.Dead)},
		}
	}},
	{"debrief_deltas_applied_total", "counter", "Deltas that this process applied to playbooks.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Vitals.Deltas))
	}},
	{"debrief_operations_rejected_total", "counter", "Operations that were asked for and not done, with the reason in the log of the playbook.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Vitals.Rejected))
	}},
	{"debrief_dead_letters", "gauge", "Dead letters of the role that are stored.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Work.Dead))
	}},
	{"debrief_stream_bytes", "gauge", "Size of the stream that the role reads.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Work.Bytes))
	}},
	{"debrief_stream_limit_bytes", "gauge", "Most that it may hold; 0 is no limit of its own.", func(r Role, _ time.Time) []sample {
		return single(float64(r.Work.MaxBytes))
	}},
	{"debrief_stream_keep_seconds", "gauge", "How long it keeps a message; 0 is for ever.", func(r Role, _ time.Time) []sample {
		return single(r.Work.Keep.Seconds())
	}},
}

// WriteMetrics writes a report in the text format of Prometheus.
func WriteMetrics(w io.Writer, r Report) error {
	var b strings.Builder
	for _, m := range metrics {
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", m.name, escape(m.help, false), m.name, m.kind)
		for _, role := range r.Roles {
			if m.kind == "summary" {
				handling(&b, m.name, role)
				continue
			}
			for _, s := range m.samples(role, r.Time) {
				line(&b, m.name, role.Role, s)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func handling(b *strings.Builder, name string, r Role) {
	if r.Vitals.Calls > 0 {
		line(b, name, r.Role, sample{[]string{"quantile", "0.5"}, r.Vitals.P50.Seconds()})
		line(b, name, r.Role, sample{[]string{"quantile", "0.95"}, r.Vitals.P95.Seconds()})
	}
	line(b, name+"_sum", r.Role, sample{value: r.Vitals.Took.Seconds()})
	line(b, name+"_count", r.Role, sample{value: float64(r.Vitals.Calls)})
}

func line(b *strings.Builder, name, role string, s sample) {
	fmt.Fprintf(b, `%s{role="%s"`, name, escape(role, true))
	for i := 0; i+1 < len(s.labels); i += 2 {
		fmt.Fprintf(b, `,%s="%s"`, s.labels[i], escape(s.labels[i+1], true))
	}
	b.WriteString("} ")
	b.WriteString(strconv.FormatFloat(s.value, 'g', -1, 64))
	b.WriteByte('\n')
}

// escape is text as the format wants it: in a help line quotes stay.
func escape(s string, quoted bool) string {
	s = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s)
	if quoted {
		s = strings.ReplaceAll(s, `"`, `\"`)
	}
	return s
}

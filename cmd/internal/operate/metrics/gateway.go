package metrics

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"debrief/playbook"
)

// Gateway returns the function that observes the requests to the gateway. The class groups paths. If a call of a model passed without
// advice or capture, degraded is the code of the reason. If the gateway failed, failure is the code of the error.
func (m *Metrics) Gateway() func(class string, status int, header time.Duration, degraded, failure string) {
	requests := m.counter("debrief_gateway_requests_total", "Requests to the gateway.", "class", "status")
	degradations := m.counter("debrief_gateway_degraded_total", "Calls of models that passed without advice or capture.", "class", "reason")
	failures := m.counter("debrief_gateway_errors_total", "Errors of the gateway itself, and cut responses.", "class", "code")
	for _, class := range []string{"chat", "responses", "messages"} { // alerts compare these values, also before the first call
		requests.WithLabelValues(class, "2xx")
		degradations.WithLabelValues(class, "deadline")
	}
	for _, b := range append(slices.Clone(m.playbooks.figures.Playbooks), "") {
		m.GatewayCall(b, "").Add(0)
		m.GatewayCall(b, "deadline").Add(0)
	}
	headers := m.histogram("debrief_gateway_header_seconds", "Time from the request to the headers of the response.", seconds, "class")
	return func(class string, status int, header time.Duration, degraded, failure string) {
		requests.WithLabelValues(class, statusClass(status)).Inc()
		if status != 0 {
			headers.WithLabelValues(class).Observe(header.Seconds())
		}
		if degraded != "" {
			degradations.WithLabelValues(class, degraded).Inc()
		}
		if failure != "" {
			failures.WithLabelValues(class, failure).Inc()
		}
	}
}

// GatewayCall returns the counter for calls of models with a playbook. The reason is why the call was not captured, or empty if it was:
// see Figures.
func (m *Metrics) GatewayCall(b playbook.Book, reason string) prometheus.Counter {
	return m.playbooks.gatewayCalls.WithLabelValues(m.playbooks.label(b), cmp.Or(reason, "captured"))
}

// Captures returns the function that counts results of capturing runs: begun, reported and dropped runs, continued and lost calls.
func (m *Metrics) Captures() func(result string) {
	captures := m.counter("debrief_gateway_captures_total", "Runs of agents that were begun, reported or dropped, and calls that continued one or could not be stored.", "result")
	for _, result := range []string{"begun", "continued", "reported", "dropped", "lost"} {
		captures.WithLabelValues(result) // from 0, so that the first one is an increase
	}
	return func(result string) { captures.WithLabelValues(result).Inc() }
}

// statusClass returns the class of a status: "4xx" for 404. It returns "none" if the client disconnected before a response.
func statusClass(status int) string {
	if status == 0 {
		return none
	}
	return strconv.Itoa(status/100) + "xx"
}

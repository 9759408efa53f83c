package metrics

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestGatewayMetrics(t *testing.T) {
	t.Parallel()
	m := New("test", "1", figures)
	observe := m.Gateway()
	observe("chat", 200, time.Second, "", "")
	observe("chat", 204, time.Second, "no-advice", "")
	observe("messages", 529, time.Second, "", "")
	observe("chat", 0, 0, "", "cut")
	m.Captures()("lost")
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	for _, want := range []string{
		`debrief_gateway_requests_total{class="chat",status="2xx"} 2`,
		`debrief_gateway_requests_total{class="chat",status="none"} 1`,
		`debrief_gateway_requests_total{class="messages",status="5xx"} 1`,
		`debrief_gateway_degraded_total{class="chat",reason="no-advice"} 1`,
		`debrief_gateway_errors_total{class="chat",code="cut"} 1`,
		`debrief_gateway_header_seconds_count{class="chat"} 2`,
		`debrief_gateway_captures_total{result="lost"} 1`,
	} {
		if !strings.Contains(w.Body.String(), want+"\n") {
			t.Errorf("no line %s in\n%s", want, w.Body.String())
		}
	}
}

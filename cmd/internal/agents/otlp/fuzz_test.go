package otlp

import (
	"testing"

	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// FuzzDecode decodes any body as traces and as logs, in both forms. What it returns can be stored, and read as a trace.
func FuzzDecode(f *testing.F) {
	f.Add(exported(traceID), true)
	f.Add(eventsOf(traceID), true)
	f.Add([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"x","spanId":7}]}]}]}`), true)
	var all tracev1.TracesData
	if err := unmarshal(exported(traceID), true, &all); err != nil {
		f.Fatal(err)
	}
	data, err := proto.Marshal(&all)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data, false)
	f.Fuzz(func(t *testing.T, body []byte, isJSON bool) {
		var stored [][]byte
		for _, decode := range []func([]byte, bool) ([]span, *refusals, error){decodeTraces, decodeLogs} {
			spans, refused, err := decode(body, isJSON)
			if err != nil {
				continue
			}
			if refused.spans > 0 && refused.reason == "" {
				t.Error("a span is refused without a reason")
			}
			for _, s := range spans {
				if len(s.trace) != 2*traceBytes || len(s.data) > maxSpan {
					t.Errorf("got a span of trace %q with %d bytes", s.trace, len(s.data))
				}
				stored = append(stored, s.data)
			}
		}
		first, rated, firstErr := runsOf(append([][]byte(nil), stored...), "")
		again, ratedAgain, againErr := runsOf(append(stored, stored...), "") // every span twice
		if len(first) != len(again) || rated.Label != ratedAgain.Label || (firstErr == nil) != (againErr == nil) {
			t.Errorf("got %d runs, %v, and with repeated spans %d runs, %v", len(first), firstErr, len(again), againErr)
		}
	})
}

package runs

import (
	"bytes"
	"reflect"
	"testing"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/steps"
)

// FuzzTraces decodes the lines of the input as spans of one trace, with each reader. A decoder must not depend on the order of a map,
// so it runs twice.
func FuzzTraces(f *testing.F) {
	for _, seed := range []string{
		`{"id":"t","scores":[{"name":"success","value":1}],"observations":[{"id":"1","type":"GENERATION","startTime":"2031-05-17T10:00:00Z","input":"[{\"role\":\"user\",\"content\":\"q\"}]","output":{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}],"role":"model"}}},{"id":"2","parentObservationId":"1","type":"TOOL","name":"f","output":"x","level":"ERROR"}]}`,
		`{"traceId":"t","id":"1","type":"AGENT","name":"a","input":"q","output":"b"}` + "\n" + `{"traceId":"t","id":"2","parentObservationId":"1","type":"GENERATION","usageDetails":{"input":1e300,"output":-1},"calculatedTotalCost":"NaN","input":{"messages":[{"role":"user","content":"q"}]}}`,
		`{"id":"l","trace_id":"t","run_type":"llm","inputs":{"messages":[[{"lc":1,"type":"constructor","id":["HumanMessage"],"kwargs":{"content":"q"}}]]},"outputs":{"generations":[[{"text":"a"}]]},"feedback_stats":{"correctness":{"avg":1}},"child_runs":[{"id":"x","run_type":"tool","name":"f","inputs":{"input":"{}"},"error":"e"}]}`,
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"t","spanId":"1","startTimeUnixNano":"1","endTimeUnixNano":"9223372036854775807","status":{"code":2},"attributes":[{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"gen_ai.prompt.0.content","value":{"stringValue":"q"}},{"key":"x","value":{"arrayValue":{"values":[{"kvlistValue":{"values":[]}}]}}}],"events":[{"name":"gen_ai.choice","attributes":[]}]}]}]}]}`,
		`{"context":{"trace_id":"t","span_id":"1"},"parent_id":null,"name":"execute_tool f","attributes":{"gen_ai.tool.name":"f","gen_ai.operation.name":"execute_tool","gen_ai.tool.call.arguments":"{}"}}` + "\n" + `{"context":{"trace_id":"t","span_id":"2"},"parent_id":"1","attributes":{"openinference.span.kind":"LLM","llm.input_messages.9.message.role":"user"}}`,
		`{"openinference.span.kind":"LLM","llm.input_messages.0.message.role":"user","llm.input_messages.0.message.contents.0.message_content.text":"q","llm.output_messages.0.message.tool_calls.0.tool_call.function.name":"f","output.value":"a"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		first, errs := decodeTraces(data)
		again, errsAgain := decodeTraces(data)
		if !reflect.DeepEqual(first, again) || !reflect.DeepEqual(errs, errsAgain) {
			t.Errorf("got %+v, %q\nthen %+v, %q", first, errs, again, errsAgain)
		}
		for _, r := range first {
			if r.Duration < 0 || r.Usage.InputTokens < 0 || r.Usage.OutputTokens < 0 || !(r.Usage.Cost >= 0) || !(r.Outcome.Score >= 0 && r.Outcome.Score <= 1) {
				t.Errorf("run %+v", r)
			}
			for _, s := range r.Steps {
				for _, c := range s.Calls {
					if c.Tool == "" || c.Outcome == "" || len(c.Output) > steps.MaxOutput+64 || c.Duration < 0 {
						t.Errorf("call %+v", c)
					}
				}
			}
		}
	})
}

// decodeTraces returns the runs and the errors of all readers.
func decodeTraces(data []byte) (runs []*steps.Run, errs []string) {
	keep := func(all []*steps.Run, err error) {
		if runs = append(runs, all...); err != nil {
			errs = append(errs, err.Error())
		}
	}
	langfuse, langsmith, otel := new(langfuseSpans), new(langSmithTrace), new(OTelTrace)
	for line := range bytes.Lines(data) {
		o := modelapi.ParseValue(bytes.TrimSpace(line))
		if o.Kind() != '{' {
			continue
		}
		keep(langfuseTrace(&record{Value: o}))
		keep(otelAttributes(&record{Value: o}))
		spans, err := splitOTLP(o)
		keep(nil, err)
		for _, raw := range spans {
			otel.Add(modelapi.ParseValue(raw), "")
		}
		langfuse.Add(o, "")
		langsmith.Add(o, "")
		otel.Add(o, "")
	}
	keep(langfuse.End())
	keep(langsmith.End())
	keep(otel.End())
	return runs, errs
}

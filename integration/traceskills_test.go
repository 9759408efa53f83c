package integration

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// TestTracesSurviveKilledGateways kills two replicas of the gateway, which receive traces at a port of their own, and the server, each a process:
// while an exporter sends, while the traces wait for their end, and while their runs are reported. Each trace is one execution.
func TestTracesSurviveKilledGateways(t *testing.T) {
	if testing.Short() {
		t.Skip("takes two minutes")
	}
	t.Parallel()
	const traces = 60
	server, url := startServer(t)
	startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0))
	var replicas []*replica
	var ports []string
	for i := range 2 {
		port := freeAddress(t)
		replicas = append(replicas, startReplica(t, fmt.Sprint("gateway", i+1), url, "http://127.0.0.1:9", "--otlp-listen", port))
		ports = append(ports, "http://"+port+"/v1/traces")
	}
	// kill kills a process and starts it again.
	kill := func(p *process) {
		p.kill()
		if err := p.start(); err != nil {
			t.Error(err)
		}
		if p == server {
			p.line() // it listens
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Minute)
	defer stop()
	var sending sync.WaitGroup
	for worker := range 3 {
		random := rand.New(rand.NewPCG(uint64(worker), 1))
		sending.Go(func() {
			for i := worker; i < traces; i += 3 {
				parts := tracePartsOf(i)
				random.Shuffle(len(parts), func(a, b int) { parts[a], parts[b] = parts[b], parts[a] })
				for _, part := range parts {
					for postTrace(ctx, ports[random.IntN(len(ports))], part) != nil && ctx.Err() == nil { // as an exporter repeats a request
						pause(ctx, 20*time.Millisecond)
					}
				}
				pause(ctx, 150*time.Millisecond) // so that processes are killed meanwhile
			}
		})
	}
	sent := make(chan struct{})
	go func() { sending.Wait(); close(sent) }()
	random := rand.New(rand.NewPCG(3, 1))
	kills := 0
	for isSending := true; isSending; kills++ {
		select {
		case <-sent:
			isSending = false
		case <-time.After(time.Duration(100+random.IntN(300)) * time.Millisecond):
		}
		victims := []*process{replicas[0].process, replicas[1].process, server}
		kill(victims[kills%len(victims)])
	}
	conn := connect(t, url)
	stored := func() (questions []string) {
		_ = conn.Events.Scan(ctx, events.StreamExecutions, ">", 1, func(s bus.Stored) error {
			if e, ok := s.Event.(*events.Execution); ok {
				questions = append(questions, e.Question)
			}
			return nil
		}) // after an error the caller reads again
		return questions
	}
	var got []string
	for len(got) < traces && ctx.Err() == nil {
		pause(ctx, 100*time.Millisecond)
		before := len(got)
		if got = stored(); before == 0 && len(got) > 0 { // in the middle of the reports
			kill(replicas[0].process)
			kill(server)
			kill(replicas[1].process)
			kills += 3
		}
	}
	// A sentinel trace is closed after all others: another report of them would have come by then.
	for _, part := range tracePartsOf(traces) {
		for postTrace(ctx, ports[0], part) != nil && ctx.Err() == nil {
			pause(ctx, 20*time.Millisecond)
		}
	}
	for ctx.Err() == nil && !slices.Contains(got, questionOfTrace(traces)) {
		pause(ctx, 200*time.Millisecond)
		got = stored()
	}
	slices.Sort(got)
	if distinct := len(slices.Compact(slices.Clone(got))); len(got) != traces+1 || distinct != traces+1 {
		t.Errorf("got %d executions of %d traces, want %d of each; %d kills", len(got), distinct, traces+1, kills)
	}
	t.Logf("%d traces, %d kills", traces, kills)
}

func questionOfTrace(i int) string { return fmt.Sprintf("Where is item %d?", i) }

// tracePartsOf returns a trace of an agent as two exports: a model call, and the root around it.
func tracePartsOf(i int) []string {
	span := func(id, parent, attributes string) string {
		return fmt.Sprintf(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"%032x","spanId":%q,"parentSpanId":%q,"name":"s","startTimeUnixNano":"%d","endTimeUnixNano":"%d","attributes":[%s]}]}]}]}`,
			i+1, id, parent, time.Now().UnixNano(), time.Now().UnixNano(), attributes)
	}
	attribute := func(key, value string) string {
		return fmt.Sprintf(`{"key":%q,"value":{"stringValue":%q}}`, key, value)
	}
	return []string{
		span("00000000000000aa", "00000000000000bb", strings.Join([]string{
			attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.input.messages", fmt.Sprintf(`[{"role":"user","content":%q}]`, questionOfTrace(i))),
			attribute("gen_ai.output.messages", `[{"role":"assistant","content":"Shelf 7."}]`),
		}, ",")),
		span("00000000000000bb", "", attribute("gen_ai.operation.name", "invoke_agent")),
	}
}

// postTrace sends a part of a trace. Without an error the gateway has stored it.
func postTrace(ctx context.Context, url, body string) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || string(text) != "{}" {
		return fmt.Errorf("status %d: %s, %w", resp.StatusCode, text, err)
	}
	return nil
}

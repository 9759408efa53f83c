package curator

import (
	"context"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// beginCommit starts the span of a commit as a child of the span of the batch. Without tracing the span records nothing.
func beginCommit(ctx context.Context) trace.Span {
	batch := trace.SpanFromContext(ctx)
	if !batch.IsRecording() {
		return trace.SpanFromContext(context.Background())
	}
	_, span := batch.TracerProvider().Tracer("debrief/curator").Start(ctx, "commit")
	return span
}

// endCommit ends the span of a commit. It adds the result to the span, and to the log at level debug.
func endCommit(ctx context.Context, span trace.Span, b *book, decided []*workItem, change []*playbook.Delta, err error) {
	defer span.End()
	if err != nil {
		span.SetStatus(codes.Error, bus.Loggable(err))
		return
	}
	p := b.writer.State().Playbook()
	ops, rejected := 0, countRejected(change)
	for _, delta := range change {
		ops += len(delta.Ops)
	}
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("debrief.book", string(b.name)), attribute.Int64("debrief.version", int64(p.Version())),
			attribute.Int("debrief.deltas", len(change)), attribute.Int("debrief.operations", ops), attribute.Int("debrief.rejected", rejected),
			attribute.Int("debrief.covered", len(decided)),
		)
	}
	line := zerolog.Ctx(ctx).Debug()
	if !line.Enabled() {
		return
	}
	traces, ids := zerolog.Arr(), zerolog.Arr()
	for _, item := range decided {
		traces.Str(item.trace)
		ids.Str(string(item.ID))
	}
	line.Uint64(events.LogVersion, p.Version()).Int("deltas", len(change)).Int("operations", ops).Int("rejected", rejected).
		Array(events.LogTrace, traces).Array(events.LogEvent, ids).Msg("committed")
}

// Meter receives the metrics of a Curator. Several goroutines may call it at the same time. It must not block.
type Meter interface {
	deltalog.Meter
	// Rejected counts an operation that was rejected.
	Rejected(playbook.Reason)
	// Decided counts a status change of a bullet by the gate.
	Decided(playbook.Status, playbook.Reason)
}

// reportMetrics reports the rejections and the gate's decisions in a committed delta to the meter. Status changes by an edit or for the
// token budget are not decisions of the gate.
func (c *Config) reportMetrics(d *playbook.Delta) {
	if c.Meter == nil {
		return
	}
	for i := range d.Rejected {
		c.Meter.Rejected(d.Rejected[i].Code)
	}
	if d.Author != history.Curator {
		return
	}
	for i := range d.Ops {
		if op := &d.Ops[i]; op.Kind == playbook.SetStatus && op.Code != playbook.ReasonTokenBudget {
			c.Meter.Decided(op.Status, op.Code)
		}
	}
}

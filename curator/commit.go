package curator

import (
	"context"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// beginCommit begins the span of a commit, within that of its batch; one that records nothing where nobody traces.
func beginCommit(ctx context.Context) trace.Span {
	batch := trace.SpanFromContext(ctx)
	if !batch.IsRecording() {
		return trace.SpanFromContext(context.Background())
	}
	_, span := batch.TracerProvider().Tracer("debrief/curator").Start(ctx, "commit")
	return span
}

// endCommit says on the span, and in the log where somebody looks for such things, what a commit came to.
func endCommit(ctx context.Context, span trace.Span, b *book, settled []*docket, change []*playbook.Delta, err error) {
	defer span.End()
	if err != nil {
		span.SetStatus(codes.Error, bus.Loggable(err))
		return
	}
	p := b.w.State().Playbook()
	ops, turnedDown := 0, rejected(change)
	for _, delta := range change {
		ops += len(delta.Ops)
	}
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("debrief.book", string(b.name)), attribute.Int64("debrief.version", int64(p.Version())),
			attribute.Int("debrief.deltas", len(change)), attribute.Int("debrief.operations", ops), attribute.Int("debrief.rejected", turnedDown),
			attribute.Int("debrief.settled", len(settled)),
		)
	}
	line := zerolog.Ctx(ctx).Debug()
	if !line.Enabled() {
		return
	}
	traces, ids := zerolog.Arr(), zerolog.Arr()
	for _, k := range settled {
		traces.Str(k.trace)
		ids.Str(string(k.id))
	}
	line.Uint64(events.LogVersion, p.Version()).Int("deltas", len(change)).Int("operations", ops).Int("rejected", turnedDown).
		Array(events.LogTrace, traces).Array(events.LogEvent, ids).Msg("committed")
}

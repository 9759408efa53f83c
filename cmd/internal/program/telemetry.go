package program

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// Telemetry contains the flags for tracing. Headers, certificates, compression and sampling have the standard
// environment variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and so on).
type Telemetry struct {
	OTLP string `name:"otlp" help:"URL of an OTLP/HTTP collector for traces, such as http://127.0.0.1:4318. Default: no tracing." placeholder:"URL" env:"DEBRIEF_OTLP,OTEL_EXPORTER_OTLP_ENDPOINT" rare:""`
}

const flushTimeout = 3 * time.Second // limits the flush of the remaining spans at the end

// trace starts to send traces if the flag is set. The returned context has the tracer. flush sends the remaining spans and stops.
// Nothing but flush waits for the collector: at most 2,048 spans queue in memory, and further spans are dropped.
func (t Telemetry) trace(ctx context.Context, program string, log zerolog.Logger) (_ context.Context, flush func(), err error) {
	if t.OTLP == "" {
		return ctx, func() {}, nil
	}
	u, err := url.Parse(t.OTLP)
	if err != nil || u.Host == "" || u.User != nil || !slices.Contains([]string{"http", "https"}, u.Scheme) {
		return ctx, nil, Exit(ExitUsage, errors.New("--otlp: must be like http://host:4318, without user or password"))
	}
	exporter, err := newExporter(ctx, u.JoinPath("v1/traces"), log)
	if err != nil {
		return ctx, nil, Exit(ExitUsage, fmt.Errorf("--otlp: %w", err))
	}
	service, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", serviceName(program)), attribute.String("service.version", Version()),
	), resource.WithFromEnv())
	if err != nil {
		return ctx, nil, Exit(ExitUsage, fmt.Errorf("--otlp: %w", err))
	}
	warnings := rate.Sometimes{Interval: time.Minute} // an unavailable collector fails every few seconds
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		warnings.Do(func() { log.Warn().Err(err).Msg("traces were lost") })
	}))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = 256 // our names are shorter; foreign ones may be long
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(service), sdk.WithRawSpanLimits(limits))
	flush = func() {
		flushCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		if err := provider.Shutdown(flushCtx); err != nil {
			log.Warn().Err(err).Msg("the last traces were lost")
		}
	}
	return context.WithValue(ctx, tracerKey{}, provider.Tracer("debrief")), flush, nil
}

// newExporter returns an exporter that posts spans to a URL. The library logs invalid environment variables and ignores them.
// newExporter returns an error for them, because the collector would refuse every span later. The error names no values, which
// can be secret.
func newExporter(ctx context.Context, to *url.URL, log zerolog.Logger) (*otlptrace.Exporter, error) {
	invalid := ""
	setLogger(func(message string) { invalid = message })
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(to.String()))
	setLogger(func(message string) { log.Warn().Msg("tracing: " + message) })
	if invalid != "" {
		return nil, errors.New("invalid environment variable OTEL_EXPORTER_OTLP_…: " + invalid)
	}
	return exporter, err
}

// setLogger sets the function that receives the errors which the library only logs, without the values that belong to them.
func setLogger(write func(message string)) {
	withoutValues := func([]any) []any { return nil }
	otel.SetLogger(funcr.New(func(_, message string) { write(message) }, funcr.Options{RenderArgsHook: withoutValues}))
}

// serviceName returns "debrief" for debrief and "debrief-" plus the program's name for the others.
func serviceName(program string) string {
	if program == "debrief" {
		return program
	}
	return "debrief-" + program
}

type tracerKey struct{}

// tracer returns the tracer of the context, nil if tracing is off.
func tracer(ctx context.Context) trace.Tracer {
	t, _ := ctx.Value(tracerKey{}).(trace.Tracer)
	return t
}

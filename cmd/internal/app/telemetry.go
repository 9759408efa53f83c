package app

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

// Telemetry are the flags of who is told what became of events. Headers, certificates, compression and sampling have the
// standard environment variables (OTEL_EXPORTER_OTLP_HEADERS, OTEL_TRACES_SAMPLER and so on).
type Telemetry struct {
	OTLP string `name:"otlp" help:"Collector that traces are sent to, OTLP over HTTP, such as http://127.0.0.1:4318. Without it nothing is traced." placeholder:"URL" env:"DEBRIEF_OTLP,OTEL_EXPORTER_OTLP_ENDPOINT"`
}

const (
	exportWait = 5 * time.Second // of one request to the collector
	flushWait  = 3 * time.Second // for what is left, at the stop
)

// trace begins to send traces where the flag asks for it. Flush sends what is left and ends it; the collector can make it
// wait, and nothing else: spans queue in memory, at most 2,048 of them, and what finds the queue full is dropped.
func (t Telemetry) trace(ctx context.Context, program string, log zerolog.Logger) (_ context.Context, flush func(), err error) {
	if t.OTLP == "" {
		return ctx, func() {}, nil
	}
	u, err := url.Parse(t.OTLP)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return ctx, nil, Exit(ExitUsage, errors.New("--otlp: must be like http://host:4318, without user or password"))
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()), otlptracehttp.WithTimeout(exportWait))
	if err != nil {
		return ctx, nil, Exit(ExitUsage, fmt.Errorf("--otlp: %w", err))
	}
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", serviceName(program)), attribute.String("service.version", Version()),
	), resource.WithFromEnv())
	if err != nil {
		return ctx, nil, Exit(ExitUsage, fmt.Errorf("--otlp: %w", err))
	}
	seldom := rate.Sometimes{Interval: time.Minute} // a collector that is away fails every few seconds
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		seldom.Do(func() { log.Warn().Err(err).Msg("traces are lost") })
	}))
	limits := sdk.NewSpanLimits()
	limits.AttributeValueLengthLimit = 256 // names are shorter, and some are other people's
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(about), sdk.WithRawSpanLimits(limits))
	return context.WithValue(ctx, tracerKey{}, provider.Tracer("debrief")), func() {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushWait)
		defer cancel()
		if err := provider.Shutdown(soon); err != nil {
			log.Warn().Err(err).Msg("the last traces are lost")
		}
	}, nil
}

// serviceName is debrief-generator of generator, and debrief of debrief.
func serviceName(program string) string {
	if program == "debrief" {
		return program
	}
	return "debrief-" + program
}

type tracerKey struct{}

// tracer is the one that the program's flags ask for, nil for none.
func tracer(ctx context.Context) trace.Tracer {
	t, _ := ctx.Value(tracerKey{}).(trace.Tracer)
	return t
}

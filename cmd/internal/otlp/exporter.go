package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// Exporter sends spans to a collector. It implements the SpanExporter of the SDK and is safe for concurrent use.
type Exporter struct {
	url     string
	headers http.Header
	gzip    bool
	client  *http.Client
}

var _ sdk.SpanExporter = (*Exporter)(nil)

// New returns an exporter that posts to a URL, such as http://127.0.0.1:4318/v1/traces. Timeout limits one request. New
// returns an error for an invalid option. It does not connect.
func New(to *url.URL, timeout time.Duration, o Options) (*Exporter, error) {
	config, err := o.tls()
	if err != nil {
		return nil, err
	}
	headers, err := o.headers()
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = config
	return &Exporter{to.String(), headers, o.Compression == "gzip", &http.Client{Transport: transport, Timeout: timeout}}, nil
}

// Shutdown closes idle connections. It does not wait for requests.
func (e *Exporter) Shutdown(context.Context) error {
	e.client.CloseIdleConnections()
	return nil
}

// Backoff between two attempts. The collector may ask for a longer one.
const (
	firstBackoff = 5 * time.Second
	maxBackoff   = 30 * time.Second
)

// ExportSpans sends the spans. It repeats a request that may succeed later, until the context ends. The error says why the
// spans, or some of them, were lost.
func (e *Exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if len(spans) == 0 {
		return nil
	}
	body := encode(spans)
	if e.gzip {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(body)
		if err = errors.Join(err, w.Close()); err != nil {
			return fmt.Errorf("compress spans: %w", err)
		}
		body = packed.Bytes()
	}
	for backoff := firstBackoff; ; backoff = min(2*backoff, maxBackoff) {
		err := e.post(ctx, body)
		var later *temporaryError
		if !errors.As(err, &later) {
			return err
		}
		select {
		case <-time.After(max(backoff, later.after)):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// temporaryError is returned when the same request may succeed later.
type temporaryError struct {
	err   error
	after time.Duration // from the header Retry-After, 0 without one
}

func (e *temporaryError) Error() string { return e.err.Error() }
func (e *temporaryError) Unwrap() error { return e.err }

// maxResponse limits the response that post reads, in bytes, and maxReason the part of it in an error.
const (
	maxResponse = 64 << 10
	maxReason   = 1 << 10
)

func (e *Exporter) post(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	r.Header = e.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	if e.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	resp, err := e.client.Do(r)
	if failed := (*url.Error)(nil); errors.As(err, &failed) && failed.Temporary() {
		return &temporaryError{err: fmt.Errorf("send spans: %w", err)}
	}
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	if err != nil {
		return fmt.Errorf("read the collector's response: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		if resp.Header.Get("Content-Type") != "application/x-protobuf" {
			return nil
		}
		return partialSuccess(text)
	}
	err = fmt.Errorf("send spans: the collector returned %s: %s", resp.Status, bytes.TrimSpace(text[:min(len(text), maxReason)]))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return &temporaryError{err, retryAfter(resp.Header.Get("Retry-After"))}
	}
	return err
}

// retryAfter returns the duration of a header Retry-After, which is a number of seconds or a time. It returns 0 for an
// invalid one.
func retryAfter(v string) time.Duration {
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(v); err == nil {
		return max(time.Until(t), 0)
	}
	return 0
}

// The field numbers of ExportTraceServiceResponse and ExportTracePartialSuccess.
const (
	responsePartialSuccess      = 1
	partialRejected, partialWhy = 1, 2
)

// partialSuccess returns an error if an ExportTraceServiceResponse reports rejected spans or a warning.
func partialSuccess(response []byte) error {
	var rejected uint64
	var reason string
	err := fields(response, func(n protowire.Number, _ uint64, partial []byte) error {
		if n != responsePartialSuccess {
			return nil
		}
		return fields(partial, func(n protowire.Number, v uint64, text []byte) error {
			switch n {
			case partialRejected:
				rejected = v
			case partialWhy:
				reason = strings.ToValidUTF8(string(text[:min(len(text), maxReason)]), "")
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("decode the collector's response: %w", err)
	}
	if rejected != 0 || reason != "" {
		return fmt.Errorf("the collector rejected %d spans: %s", rejected, reason)
	}
	return nil
}

// fields calls visit for each field of a message: with the number of a varint, or with the bytes of a string or a message.
func fields(m []byte, visit func(n protowire.Number, v uint64, b []byte) error) error {
	for len(m) > 0 {
		number, kind, n := protowire.ConsumeTag(m)
		if n < 0 {
			return protowire.ParseError(n)
		}
		m = m[n:]
		var v uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			v, n = protowire.ConsumeVarint(m)
		case protowire.BytesType:
			b, n = protowire.ConsumeBytes(m)
		default:
			n = protowire.ConsumeFieldValue(number, kind, m)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := visit(number, v, b); err != nil {
			return err
		}
		m = m[n:]
	}
	return nil
}

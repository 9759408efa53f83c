package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/proxy"
	"debrief/events/deltalog"
	"debrief/generator"
)

// gatewaySetup is a gateway with its provider and its server.
type gatewaySetup struct {
	provider  *httptest.Server
	plain     *httptest.Server // a reverse proxy to the provider
	front     *proxy.Front
	client    *http.Client
	closers   []func()
	calls     atomic.Int64 // so far; their number makes each prompt different
	unchanged atomic.Int64 // calls without advice or capture
	texts     texts
	mu        sync.Mutex // guards texts
}

func (g *gatewaySetup) close() {
	for _, f := range slices.Backward(g.closers) {
		f()
	}
}

// open starts the server with its playbook, the provider, the reverse proxy and the gateway.
func (b *gatewayBench) open(ctx context.Context, log zerolog.Logger) (*gatewaySetup, error) {
	g := &gatewaySetup{texts: newTexts(7)}
	transport := &http.Transport{MaxIdleConnsPerHost: 2048}
	g.client = &http.Client{Transport: transport}
	server, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(ctx, b.Sync, log)
	if err != nil {
		return nil, err
	}
	g.closers = append(g.closers, server.Close)
	if err := fillBook(ctx, deltalog.New(server.JetStream()), benchBook, b.Bullets, newTexts(2)); err != nil {
		g.close()
		return nil, err
	}
	g.provider = httptest.NewServer(http.HandlerFunc(provide))
	g.plain = httptest.NewServer(plainProxy(g.provider.URL))
	g.closers = append(g.closers, g.provider.Close, g.plain.Close)
	g.front, err = proxy.Listen(proxy.Options{
		Gateway: program.Gateway{HTTP: "127.0.0.1:0", GatewayMode: "off", AdviceTimeout: 150 * time.Millisecond, RunIdle: 10 * time.Minute, UpstreamOpenAI: g.provider.URL},
		Metrics: program.MetricsWithoutFigures("bench"), Log: log,
	})
	if err != nil {
		g.close()
		return nil, err
	}
	builder := generator.NewContextBuilder(server.Conn, nil, generator.Config{})
	builder.WaitLoaded(ctx, benchBook, time.Hour)
	stop := g.front.Connect(ctx, server.Conn, builder)
	g.closers = append(g.closers, transport.CloseIdleConnections, func() { _ = g.front.Close() }, stop, builder.Close)
	return g, nil
}

// plainProxy returns a reverse proxy of the standard library that sends each chunk at once. It reads the whole request body first,
// because an HTTP server closes it when the response begins.
func plainProxy(provider string) http.Handler {
	target, _ := url.Parse(provider)
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 1024},
		FlushInterval: -1,
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}

// tokenEvent is an event of a stream of chat completions, of about 200 bytes.
const tokenEvent = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1790000000,"model":"bench","choices":[{"index":0,"delta":{"content":"token "},"finish_reason":null}],"usage":null}` + "\n\n"

const lastEvents = `data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1790000000,"model":"bench","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

// thinking is the time between the first event of a stream and the others, because no model sends all tokens at once.
const thinking = 20 * time.Millisecond

// provide answers with one event, and with 49 more after the time thinking. With the header X-Endless it sends an event every 50 ms
// until the client disconnects.
func provide(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	endless := r.Header.Get("X-Endless") != ""
	for i := 0; i < 50 || endless; i++ {
		_, _ = io.WriteString(w, tokenEvent)
		if flush() != nil {
			return
		}
		pause := time.Duration(0)
		switch {
		case endless:
			pause = 50 * time.Millisecond
		case i == 0:
			pause = thinking
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(pause):
		}
	}
	_, _ = io.WriteString(w, lastEvents)
}

// call starts a call of a model, through the gateway in the given mode, or directly to the provider. The caller must close the body.
func (g *gatewaySetup) call(ctx context.Context, mode string, endless bool) (*http.Response, error) {
	g.mu.Lock()
	question := g.texts.question()
	g.mu.Unlock()
	body := fmt.Sprintf(`{"model":"bench","stream":true,"messages":[{"role":"system","content":"%s"},{"role":"user","content":"%d: %s"}]}`,
		strings.Repeat("You are careful. ", 1200), g.calls.Add(1), question)
	base := g.front.URL()
	switch mode {
	case direct:
		base = g.provider.URL
	case plain:
		base = g.plain.URL
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Debrief-Book", string(benchBook))
	if mode != direct && mode != plain {
		r.Header.Set("X-Debrief-Mode", mode)
	}
	if endless {
		r.Header.Set("X-Endless", "1")
	}
	res, err := g.client.Do(r)
	if err != nil {
		return nil, err
	}
	if res.Header.Get("X-Debrief-Degraded") != "" {
		g.unchanged.Add(1)
	}
	if res.StatusCode != http.StatusOK {
		_ = res.Body.Close()
		return nil, fmt.Errorf("call in mode %s: got %s", mode, res.Status)
	}
	return res, nil
}

// timedCall makes a call and returns the times to its first and to its last byte.
func (g *gatewaySetup) timedCall(ctx context.Context, mode string) (first, last time.Duration, err error) {
	began := time.Now()
	res, err := g.call(ctx, mode, false)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 1)); err != nil {
		return 0, 0, err
	}
	first = time.Since(began)
	_, err = io.Copy(io.Discard, res.Body)
	return first, time.Since(began), err
}

// hold opens n endless streams, and returns a function that ends them.
func (g *gatewaySetup) hold(ctx context.Context, mode string, n int) (end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var open sync.WaitGroup
	end = func() {
		cancel()
		open.Wait()
	}
	for range n {
		res, err := g.call(ctx, mode, true)
		if err != nil {
			end()
			return nil, err
		}
		open.Go(func() {
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		})
	}
	return end, nil
}

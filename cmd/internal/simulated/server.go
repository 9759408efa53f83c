package simulated

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// Handler serves the model: chat completions, responses and messages, each also as a stream, and the list of models, below /v1.
func Handler(o Options) http.Handler {
	m := newModel(o)
	mux := http.NewServeMux()
	apis := NewProvider(m.reply, Name)
	for _, path := range []string{"POST /v1/chat/completions", "POST /v1/responses", "POST /v1/messages", "POST /v1/messages/count_tokens"} {
		mux.HandleFunc(path, m.serve(apis))
	}
	mux.Handle("GET /v1/models", apis)
	mux.Handle("GET /v1/models/{name}", apis)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, Chat, Answer{Status: http.StatusNotFound, Message: "no such endpoint: " + introduction}, nil)
	})
	return mux
}

// Serve listens on addr and serves the model until ctx ends. An empty addr is a free port of the loopback interface.
// baseURL is the base URL for OpenAI clients. After ctx ends, replies in flight have one second to finish; then wait
// returns.
func Serve(ctx context.Context, addr string, o Options) (baseURL string, wait func() error, err error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, err // contains the address
	}
	server := &http.Server{
		Handler:           Handler(o),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	stopped, ended := make(chan error, 1), make(chan error, 1)
	context.AfterFunc(ctx, func() { stopped <- stop(context.WithoutCancel(ctx), server) })
	go func() {
		defer close(ended)
		err := server.Serve(l)
		if errors.Is(err, http.ErrServerClosed) { // ctx has ended
			err = <-stopped
		}
		ended <- err
	}()
	return "http://" + l.Addr().String() + "/v1", func() error { return <-ended }, nil
}

// stop waits for the replies in flight for a second, and then closes their connections.
func stop(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) { // a reply with a long Latency, or a connection without a request
		return server.Close()
	}
	return err
}

// maxBodyBytes limits a request. It is larger than any context window.
const maxBodyBytes = 8 << 20

// serve answers the requests of the three model APIs, each after the latency.
func (m *model) serve(apis http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
		if wait(r, m.Latency) { // else the client disconnected
			apis.ServeHTTP(w, r)
		}
	}
}

// reply answers a request of one of the model APIs.
func (m *model) reply(r *Request) Answer {
	c := newConversation(r, m.Seed)
	out := m.fault(c, r.Header)
	if out.Status != 0 || out.HTML != "" {
		return out // the fault in place of a reply; the fault Cut is in a whole reply
	}
	out.ID, out.Model, out.Fingerprint = fmt.Sprintf("%016x", c.draw("id")), Name, fingerprint
	if call := c.call(r); call != nil {
		out.Calls = []Call{*call}
	} else {
		out.Text = m.answer(c)
	}
	if maxBytes := 4 * r.MaxTokens; maxBytes > 0 && len(out.Text) > maxBytes {
		out.Text, out.Length = strings.ToValidUTF8(out.Text[:maxBytes], ""), true
	}
	out.Usage = &Usage{Input: tokens(c.bytes), Output: tokens(len(out.Text))}
	return out
}

// tokens estimates the number of tokens, at four bytes each.
func tokens(bytes int) int { return (bytes + 3) / 4 }

// Package simulated replaces a language model, so that the whole learning loop runs, and can be measured, without one.
// It is a server with the OpenAI chat API that answers the prompts of all roles. The model's name and the fingerprint
// of every reply state that it is simulated.
//
// # The task
//
// The tasks are invoices of a company. The amount due depends on hidden house rules: the discount of gold customers,
// the tax of region North, the rounding of cash. Package simulated contains both sides. They share words, but no
// numbers:
//
//   - The world (rules.go, tasks.go, evaluator.go) draws the numbers of the rules from a seed, writes invoices with the
//     right result of every step, and evaluates answers, with errors if configured. It serves no requests.
//   - The model (all other files) knows only the prompts. As generator it adds up without mistakes and applies the
//     bullets of the prompt, also those with wrong numbers. As reflector it derives a rule from one expected amount.
//     As curator it adds missing rules and corrects wrong ones. A test checks that no file of the model uses the world.
//
// The model therefore learns only through the playbook. Removing a bullet, or changing its number, changes exactly the
// answers that use it.
//
// Each reply is a function of the prompt and of Options. It depends on no counter, clock or order of calls. Injected
// faults also depend on the header X-Stainless-Retry-Count, so that a retry can succeed.
//
// The same server embeds texts by hashing words and letters (embeddings.go). Texts that share words have a high cosine;
// synonyms do not.
//
// # Limits
//
// The package does not measure how well language models learn, and its mistakes are simpler than theirs. It only shows
// that the workers around a model preserve and apply the insights of the model.
package simulated

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"
)

const (
	// Name is the model's name on the wire.
	Name = "simulated-invoice-desk"
	// embeddingName is the name of the model that embeds.
	embeddingName = "simulated-embeddings"
	// fingerprint marks every reply.
	fingerprint = "simulated"
)

// introduction is part of replies to prompts that are not from a role.
const introduction = "I am a simulated model: I know an invoice desk and nothing else."

// Options configure the model. The zero value replies at once and without faults. Rates are shares of prompts, 0 to 1.
type Options struct {
	// Seed selects the prompts to which the rates apply. It is not the seed of the house rules, which the model does
	// not know.
	Seed uint64
	// Latency is the delay of every reply.
	Latency time.Duration
	// FaultRate is the rate of faults: status 429 with Retry-After, status 500, a truncated reply, or HTML in place of JSON.
	FaultRate float64
	// SloppyRate is the rate of replies with text around the JSON (fences, prose, thoughts), with null or with unknown ids.
	SloppyRate float64
	// ObeyRate is the rate at which the model obeys instructions in tasks and traces ("Ignore all of the above and …").
	ObeyRate float64
	// NonsenseRate is the rate at which a reflector states a fluent nonsense rule in place of the rule that it found.
	NonsenseRate float64
	// RepeatRate is the rate at which a reflector without an insight repeats a line of the trace as its insight.
	RepeatRate float64
	// MaxInsights is the number of insights or proposals that a curator reads in one prompt, chosen by a hash; 0 is all.
	// It models, as one number, that published runs lose detail if a single call has too much input.
	MaxInsights int
}

type model struct{ Options }

// Handler serves the model: POST /v1/chat/completions (also as a stream), POST /v1/embeddings, and GET /v1/models.
func Handler(o Options) http.Handler {
	m := &model{o}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", m.complete)
	mux.HandleFunc("POST /v1/embeddings", m.embed)
	mux.HandleFunc("GET /v1/models", listModels)
	mux.HandleFunc("GET /v1/models/{name}", showModel)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "not_found_error", "no such endpoint: "+introduction)
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
	startServer := make(chan error, 1)
	go func() { startServer <- server.Serve(l) }()
	done := make(chan error, 1)
	go func() {
		defer close(done)
		select {
		case err := <-startServer:
			done <- err
			return
		case <-ctx.Done():
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err := server.Shutdown(grace)
		if errors.Is(err, context.DeadlineExceeded) {
			// A reply with a long Latency, or a connection without a request: close it.
			err = server.Close()
		}
		<-startServer
		done <- err
	}()
	return "http://" + l.Addr().String() + "/v1", func() error { return <-done }, nil
}

// answer returns the text of the model's reply.
func (m *model) answer(p *prompt) string {
	isSloppy := p.chance("sloppy", m.SloppyRate)
	var reply any
	switch p.role() {
	case "generator":
		g := m.generate(p)
		if isSloppy {
			return sloppy(p, g.sloppy(p))
		}
		reply = g
	case "reflector":
		r := m.reflect(p)
		if isSloppy {
			r.BulletTags = append(r.BulletTags, tag{"[nowhere-00000]", "Helpful"})
			return sloppy(p, r)
		}
		reply = r
	case "curator":
		c := m.curate(p)
		if isSloppy {
			return sloppy(p, c.sloppy(p))
		}
		reply = c
	case "reducer":
		r := m.reduce(p)
		if isSloppy {
			return sloppy(p, r)
		}
		reply = r
	case "refiner":
		c := m.refine(p)
		if isSloppy {
			return sloppy(p, c.sloppy(p))
		}
		reply = c
	case "summary":
		reply = m.summarise(p)
	default:
		return "Thank you for asking. " + introduction + " If you are setting something up: it works."
	}
	return asJSON(reply)
}

// asJSON encodes a value of this package. It panics if that fails, which would be a programming error.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// Package simulated is a stand-in for a language model, so that the whole loop can be run, watched and measured
// without one: a server on the OpenAI chat wire that plays all roles at an invoice desk. It says that it is
// simulated wherever it is named: in the model's name, in the fingerprint of every reply and here.
//
// # What it is
//
// The desk works invoices through by house rules that nobody is told: what gold customers get off, what the North is
// taxed, how cash is rounded. Package simulated plays both sides of that, and the two share words but no numbers:
//
//   - The world (house.go, tasks.go, verdict.go) draws the house's numbers from a seed, makes invoices with the right
//     result of every step, and judges answers, wrongly where it is told to. It serves nothing.
//   - The model (all other files) serves the prompts it is sent and knows nothing else. As generator it adds up without
//     mistakes and follows the bullets in the prompt to the letter, wrong numbers included. As reflector it works a
//     rule out of one expected amount by arithmetic. As curator it adds rules that the playbook lacks and corrects
//     those that it has wrong. No file of the model mentions the house; a test sees to that.
//
// So what is learned passes through the playbook or not at all: take a bullet away, or change its number, and exactly
// the answers that need it change.
//
// Each reply is a function of the prompt (and of Options): no counter, clock or order of calls enters it. Faults that
// a client retries also depend on the header X-Stainless-Retry-Count, so that the second try can fare better.
//
// The same server also embeds texts, by their letters alone (embeddings.go): what shares words is near, and a synonym is
// as far as any other word.
//
// # What it is not
//
// It is no measure of how well language models learn, and its wrongs are simpler than theirs. It shows that the
// machinery around a model carries what the model finds out, and nothing but that.
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
	// EmbeddingName is the name of the model that embeds.
	EmbeddingName = "simulated-embeddings"
	// Fingerprint marks every reply.
	Fingerprint = "simulated"
)

const introduction = "I am a simulated model: I know an invoice desk and nothing else."

// Options are how the model behaves. The zero value is quick and without fault. Rates are shares of prompts, 0 to 1.
type Options struct {
	// Seed varies which prompts the rates hit. The model knows no house, so this is not the seed of its rules.
	Seed uint64
	// Latency is how long every reply takes.
	Latency time.Duration
	// Fail answers with a busy server (429 and Retry-After), a broken one (500), a reply that is cut off or garbage.
	Fail float64
	// Sloppy wraps replies in what models put around JSON: fences, prose, thoughts, null and unknown ids.
	Sloppy float64
	// Gullible obeys orders found in tasks and traces ("Ignore all of the above and …").
	Gullible float64
	// Noise makes a reflector state a fluent nonsense rule where it should state the one it found.
	Noise float64
	// Parrot makes a reflector that finds nothing say what the trace says, as if it had come up with it.
	Parrot float64
	// Attention is how many insights, or proposals, of one prompt a curator takes in; chance picks which. Published runs lose detail in
	// one call over too much; how much of it a call loses and which is simplified here to a number. 0 is no limit.
	Attention int
}

type model struct{ Options }

// Handler serves the model: POST /v1/chat/completions, also streamed, POST /v1/embeddings, and GET /v1/models.
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

// Serve listens on addr, on a free port of the loopback when it is empty, and serves the model until ctx ends. baseURL
// is what a client of the OpenAI API is configured with. Replies in flight get a second to finish; then wait returns.
func Serve(ctx context.Context, addr string, o Options) (baseURL string, wait func() error, err error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, err // it names the address
	}
	server := &http.Server{
		Handler:           Handler(o),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		IdleTimeout:       2 * time.Minute,
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	done := make(chan error, 1)
	go func() {
		defer close(done)
		select {
		case err := <-served:
			done <- err
			return
		case <-ctx.Done():
		}
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err := server.Shutdown(grace)
		if errors.Is(err, context.DeadlineExceeded) {
			// A reply that is slow on purpose, or a connection that was dialled and never used: not worth a wait.
			err = server.Close()
		}
		<-served
		done <- err
	}()
	return "http://" + l.Addr().String() + "/v1", func() error { return <-done }, nil
}

// answer is the text that the model replies with.
func (m *model) answer(p *prompt) string {
	sloppy := p.chance("sloppy", m.Sloppy)
	var reply any
	switch p.role() {
	case "generator":
		g := m.generate(p)
		if sloppy {
			return clumsy(p, g.clumsy(p))
		}
		reply = g
	case "reflector":
		r := m.reflect(p)
		if sloppy {
			r.BulletTags = append(r.BulletTags, tag{"[nowhere-00000]", "Helpful"})
			return clumsy(p, r)
		}
		reply = r
	case "curator":
		c := m.curate(p)
		if sloppy {
			return clumsy(p, c.clumsy(p))
		}
		reply = c
	case "reducer":
		r := m.reduce(p)
		if sloppy {
			return clumsy(p, r)
		}
		reply = r
	case "refiner":
		c := m.refine(p)
		if sloppy {
			return clumsy(p, c.clumsy(p))
		}
		reply = c
	case "summary":
		reply = m.summarise(p)
	default:
		return "Thank you for asking. " + introduction + " If you are setting something up: it works."
	}
	return asJSON(reply)
}

// asJSON is a value of ours as JSON; they all encode.
func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

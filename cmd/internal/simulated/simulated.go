package simulated

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"debrief/cmd/internal/simulated/wires"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/cmd/internal/simulated/worlds/world"
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
}

// model adds the behaviours of Options to a model of invoices.
type model struct {
	Options
	invoices *world.Model
}

func newModel(o Options) *model { return &model{o, invoice.NewModel(o.Seed, world.Imperfection{})} }

// Handler serves the model: chat completions, responses and messages, each also as a stream, embeddings, and the list of models, below /v1.
func Handler(o Options) http.Handler {
	m := newModel(o)
	mux := http.NewServeMux()
	apis := wires.New(m.reply, Name, embeddingName)
	for _, path := range []string{"POST /v1/chat/completions", "POST /v1/responses", "POST /v1/messages", "POST /v1/messages/count_tokens"} {
		mux.HandleFunc(path, m.serve(apis))
	}
	mux.HandleFunc("POST /v1/embeddings", m.embed)
	mux.Handle("GET /v1/models", apis)
	mux.Handle("GET /v1/models/{name}", apis)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		wires.Write(w, wires.Chat, wires.Answer{Status: http.StatusNotFound, Message: "no such endpoint: " + introduction}, nil)
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
	served := make(chan error, 1) // the error of Serve
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
			// A reply with a long Latency, or a connection without a request: close it.
			err = server.Close()
		}
		<-served
		done <- err
	}()
	return "http://" + l.Addr().String() + "/v1", func() error { return <-done }, nil
}

// Patterns of instructions in tasks and traces that a gullible model obeys.
var (
	bulletOrder = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?(?:add (?:a |the |this )?(?:new )?bullet|remember)\W+([^\n]+)`)
	answerOrder = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?answer (?:with )?\W?(-?[\w.]*\w)`)
)

// answer returns the text of the model's reply.
func (m *model) answer(c *conversation) string {
	role, said := c.role(), c.said
	if result := c.lastResult(); role == "" && result != "" {
		return "The tool answered: " + result + "\n" + introduction
	}
	if role == "" {
		return "Thank you for asking. " + introduction + " If you are setting something up: it works."
	}
	reply := m.invoices.Reply(role, said)
	switch role {
	case "generator":
		if c.chance("gullible", m.ObeyRate) {
			question, background := world.ReadTask(said)
			if order := answerOrder.FindStringSubmatch(background + "\n" + question); order != nil {
				reply = world.ReplyJSON(world.Answer{Reasoning: "I was told to.", BulletIDs: []string{}, FinalAnswer: order[1]})
			}
		}
	case "reflector":
		reply = m.distort(c, reply, world.UserText(said))
	}
	if role != "summary" && c.chance("sloppy", m.SloppyRate) {
		return sloppy(c, role, reply)
	}
	return reply
}

// distort replaces the insight of a reflection by nonsense, or by the insight that an instruction in the material asks for. A
// model that obeys an instruction also states its own insight, as a further learning.
func (m *model) distort(c *conversation, reply, material string) string {
	type learning struct {
		Learning string `json:"learning"`
	}
	var out struct {
		world.Reflection
		Learnings []learning `json:"extracted_learnings,omitempty"`
	}
	if err := json.Unmarshal([]byte(reply), &out); err != nil {
		panic(err) // the model of invoices has no errors (Imperfection{}), so its reply is always JSON
	}
	failed := !strings.HasPrefix(strings.TrimSpace(material), "Outcome: success")
	if failed && c.chance("noise", m.NonsenseRate) {
		texts := new(invoice.Language).Nonsense(invoice.NonsenseTexts)
		out.KeyInsight, out.Section = texts[c.draw("nonsense")%uint64(len(texts))], "desk lore"
	}
	if !c.chance("gullible", m.ObeyRate) {
		return world.ReplyJSON(out)
	}
	if order := bulletOrder.FindStringSubmatch(material); order != nil {
		if out.KeyInsight != "" {
			out.Learnings = []learning{{out.KeyInsight}}
		}
		out.Reasoning = "I was told to. " + out.Reasoning
		out.KeyInsight = strings.TrimSpace(order[1])
		out.Section = cmp.Or(out.Section, "orders")
	}
	return world.ReplyJSON(out)
}

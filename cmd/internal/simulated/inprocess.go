package simulated

// Direct is the model without HTTP, for benchmarks with a hundred thousand calls. It gives the same replies to the same
// prompts, without Latency and FaultRate.
type Direct struct{ model }

// NewDirect returns a model that runs in this process.
func NewDirect(o Options) *Direct { return &Direct{model{o}} }

// Message is one message of a prompt.
type Message struct{ Speaker, Text string }

// Reply returns the model's answer to a prompt with the named schema, and the numbers of tokens that the server would
// report.
func (d *Direct) Reply(schema string, messages []Message) (reply string, inputTokens, outputTokens int) {
	p := &prompt{schema: schema, salt: d.Seed}
	for _, m := range messages {
		p.messages = append(p.messages, message{Speaker: m.Speaker, Text: text(m.Text)})
	}
	reply = d.answer(p)
	return reply, tokens(p.bytes()), tokens(len(reply))
}

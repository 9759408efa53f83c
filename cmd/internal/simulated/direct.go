package simulated

// Direct is the model without the wire, for measurements that ask it a hundred thousand times: the same replies to the
// same prompts, at once and with none of the faults that a wire has.
type Direct struct{ model }

// NewDirect is a model that is asked in this process.
func NewDirect(o Options) *Direct { return &Direct{model{o}} }

// Said is one message of a prompt.
type Said struct{ Speaker, Text string }

// Reply is what the model answers to a prompt that asks for a schema by name, and what that would cost on the wire.
func (d *Direct) Reply(schema string, messages []Said) (reply string, inputTokens, outputTokens int) {
	p := &prompt{schema: schema, salt: d.Seed}
	for _, m := range messages {
		p.messages = append(p.messages, message{Speaker: m.Speaker, Text: text(m.Text)})
	}
	reply = d.answer(p)
	return reply, tokens(p.bytes()), tokens(len(reply))
}

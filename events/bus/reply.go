package bus

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/playbook/text"
)

// replyTarget is where a message requests its reply, and in which encoding.
type replyTarget struct {
	subject string // empty: no reply
	asJSON  bool   // the message was JSON, so its reply is JSON
}

// replyTargetOf reads the headers of a message, which may be invalid or belong to an undecodable payload.
func replyTargetOf(h nats.Header) replyTarget {
	subject, err := events.ReplySubject(h)
	if err != nil {
		return replyTarget{}
	}
	asJSON, _ := events.IsJSON(h)
	return replyTarget{subject, asJSON || h.Get(events.HeaderReplyType) == events.ContentTypeJSON}
}

// replyResult sends the reply of the handler: its own Reply, the handled event (original), or the first event that was stored for it.
func (c *Conn) replyResult(ctx context.Context, target replyTarget, it *item, original *nats.Msg) error {
	switch {
	case target.subject == "", it.result.Forward: // no requester, or another worker replies
	case it.result.ReplyOriginal:
		return c.replyStored(ctx, target, original)
	case it.result.Reply != nil:
		c.reply(&nats.Msg{Subject: target.subject, Data: it.result.Reply, Header: events.SchemaHeader()})
	case it.firstMsg != nil:
		return c.replyStored(ctx, target, it.firstMsg)
	}
	return nil
}

// replyStored sends a stored event, whose header has its handle.
func (c *Conn) replyStored(ctx context.Context, target replyTarget, stored *nats.Msg) error {
	if target.asJSON {
		return c.replyJSON(ctx, target.subject, stored)
	}
	m := *stored
	m.Subject = target.subject
	c.reply(&m)
	return nil
}

// original returns the message of an item as a stored event with its handle, for a reply.
func (p *processor) original(it *item) *nats.Msg {
	m := p.flight.message(it)
	return asStored(m.Subject(), m.Headers(), m.Data(), &it.d)
}

// asStored returns a stored message with the handle of its event, and without the headers that request a reply.
func asStored(subject string, header nats.Header, data []byte, d *Delivery) *nats.Msg {
	out := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: data}
	for name, values := range header {
		if name != events.HeaderReply && name != events.HeaderReplyType {
			out.Header[name] = values
		}
	}
	out.Header.Set(events.HeaderHandle, string(d.Handle()))
	return out
}

// replyJSON sends a stored event as JSON. It returns an error if the event must be read from the server and that fails.
func (c *Conn) replyJSON(ctx context.Context, to string, stored *nats.Msg) error {
	e, err := c.decodeStored(ctx, stored.Subject, stored.Header, stored.Data)
	if err != nil {
		return err
	}
	handle := stored.Header.Get(events.HeaderHandle)
	data, err := json.Marshal(e)
	limit := c.nc.MaxPayload() - maxReason
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("reply too large: %d bytes, the server accepts %d: the result is stored as %s", len(data), limit, handle)
	}
	if err != nil {
		c.replyError(replyTarget{to, true}, err.Error())
		return nil
	}
	c.reply(&nats.Msg{Subject: to, Data: data, Header: nats.Header{
		events.HeaderContentType: {events.ContentTypeJSON}, events.HeaderHandle: {handle},
	}})
	return nil
}

// replyError sends the reason of a failure: in a header, and to a request in JSON also in the body.
func (c *Conn) replyError(target replyTarget, reason string) {
	if target.subject == "" {
		return
	}
	reason = text.Line(reason, maxReason)
	m := &nats.Msg{Subject: target.subject, Header: nats.Header{events.HeaderError: {reason}}}
	if target.asJSON {
		m.Data, _ = json.Marshal(events.ErrorReply{Error: reason}) // a struct with one string cannot fail
		m.Header.Set(events.HeaderContentType, events.ContentTypeJSON)
	}
	c.reply(m)
}

// reply sends a reply. It only logs an error: the result of the work is stored, and the requester may have gone.
func (c *Conn) reply(m *nats.Msg) {
	m.Header.Del(nats.MsgIdHdr)
	if err := c.nc.PublishMsg(m); err != nil {
		c.log.Warn().Err(err).Msg("send reply")
	}
}

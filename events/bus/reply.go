package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

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

// replyResult sends the reply of the handler: the handled event itself, Result.Reply, or the first event that was stored for it.
func (p *processor) replyResult(target replyTarget, it *item) error {
	switch {
	case target.subject == "", it.result.Forward: // no requester, or another worker replies
	case it.result.ReplyOriginal:
		return p.conn.replyStored(p.work, target, asStored(p.flight.message(it), &it.d))
	case it.result.Reply != nil:
		p.conn.reply(&nats.Msg{Subject: target.subject, Data: it.result.Reply, Header: events.SchemaHeader()})
	case it.firstMsg != nil:
		return p.conn.replyStored(p.work, target, it.firstMsg)
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

// asStored returns the message of a delivery as a stored event: with its handle, and without the headers that request a reply.
func asStored(m jetstream.Msg, d *Delivery) *nats.Msg {
	out := &nats.Msg{Subject: m.Subject(), Header: maps.Clone(m.Headers()), Data: m.Data()}
	out.Header.Del(events.HeaderReply)
	out.Header.Del(events.HeaderReplyType)
	out.Header.Set(events.HeaderHandle, string(d.Handle()))
	return out
}

// replyJSON sends a stored event as JSON. It returns an error if it cannot read the payload from the server or decode it. If the reply
// is too large, it sends the reason instead.
func (c *Conn) replyJSON(ctx context.Context, to string, stored *nats.Msg) error {
	e, err := c.decode(ctx, stored.Subject, stored.Header, stored.Data)
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

package rights

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/natserr"
)

// Hint is the hint for missing rights.
const Hint = "write accounts.conf again with 'debrief credentials DIR' of this version, and reload the servers (SIGHUP, or a restart)"

// probeTimeout limits the wait for the reply to a probe. A probe without a reply and without an error has reached a subscriber: the server
// reports a denied subject and a subject without subscribers.
const probeTimeout = 2 * time.Second

// Missing probes the rights of a role on its connection, which must have the role's inbox prefix. It returns the subjects
// that the server refuses to the user, or that the account of the user does not import, each with that reason. No probe
// changes anything. The streams must exist. Rights to subjects whose receivers do not reply are not probed.
func Missing(ctx context.Context, nc *nats.Conn, w *natserr.Watch, user string) []string {
	p := prober{ctx: ctx, nc: nc, watch: w}
	needsConsumer := func(subject string) bool {
		return strings.Contains(subject, ".MSG.NEXT.") || strings.HasPrefix(subject, "$JS.ACK.")
	}
	var others, ofConsumers []string
	for _, s := range probedSubjects(user) {
		if needsConsumer(s) {
			ofConsumers = append(ofConsumers, s)
		} else {
			others = append(others, s)
		}
	}
	p.probeAll(others) // also finds out which consumers do not exist
	p.probeAll(slices.DeleteFunc(ofConsumers, p.isAbsent))
	slices.Sort(p.missing)
	return p.missing
}

// probedSubjects returns the subjects to which a user may publish in the operator's account. There the streams and the server reply.
// Inboxes do not reply, so the subject of replies is left out.
func probedSubjects(user string) (subjects []string) {
	for _, u := range Users() {
		for _, g := range u.Publish {
			if u.Name == user && g.Accounts == nil && g.Subject != replies.Subject {
				subjects = append(subjects, g.Subject)
			}
		}
	}
	return subjects
}

// prober sends probes.
type prober struct {
	ctx   context.Context
	nc    *nats.Conn
	watch *natserr.Watch

	mu        sync.Mutex
	missing   []string
	consumers []string // consumers that do not exist, as STREAM.NAME
}

// isAbsent reports whether a subject belongs to a consumer that does not exist, and therefore has no subscriber.
func (p *prober) isAbsent(subject string) bool {
	return slices.ContainsFunc(p.consumers, func(c string) bool { return strings.Contains(subject+".", "."+c+".") })
}

func (p *prober) probeAll(subjects []string) {
	var done sync.WaitGroup
	for _, s := range subjects {
		done.Go(func() { p.probe(s) })
	}
	done.Wait()
}

// probe probes a subject and records the result.
func (p *prober) probe(subject string) {
	reply, err := p.request(subject)
	switch {
	case natserr.IsDenied(err):
		p.addMissing(fmt.Sprintf("%s (not permitted)", subject))
	case errors.Is(err, nats.ErrNoResponders):
		p.addMissing(fmt.Sprintf("%s (not imported by the account)", subject))
	case err == nil && strings.Contains(string(reply.Data), `"err_code":10014`): // consumer not found
		p.mu.Lock()
		p.consumers = append(p.consumers, strings.TrimPrefix(subject, "$JS.API.CONSUMER.INFO."))
		p.mu.Unlock()
	}
}

func (p *prober) addMissing(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = append(p.missing, text)
}

// request sends a probe. While the subject has no subscriber, it sends again, for up to probeTimeout: a cluster may be electing a leader.
// Then it returns nats.ErrNoResponders.
func (p *prober) request(subject string) (*nats.Msg, error) {
	msg := probeOf(subject)
	for began := time.Now(); ; {
		reply, err := p.send(msg)
		if !errors.Is(err, nats.ErrNoResponders) || time.Since(began) > probeTimeout {
			return reply, err
		}
		if events.Sleep(p.ctx, probeTimeout/8) != nil {
			return nil, err
		}
	}
}

// send sends a probe and returns its reply. A concurrent probe whose subject contains this one can end it with an error. Then it sends again.
func (p *prober) send(msg *nats.Msg) (*nats.Msg, error) {
	for {
		ctx, cancel := context.WithTimeout(p.ctx, probeTimeout)
		reply, err := natserr.Call(ctx, p.watch, msg.Subject, func(ctx context.Context) (*nats.Msg, error) { return p.nc.RequestMsgWithContext(ctx, msg) })
		cancel()
		refused, isRefused := errors.AsType[*natserr.DeniedError](err)
		if !isRefused || refused.Subject == msg.Subject {
			return reply, err
		}
	}
}

// probeOf returns a request that gets a reply and changes nothing: it is invalid, a query, or expects another stream.
func probeOf(subject string) *nats.Msg {
	m := &nats.Msg{Subject: strings.NewReplacer("*", "probe", ">", "probe").Replace(subject), Header: nats.Header{}}
	switch {
	case strings.HasPrefix(subject, "$JS.ACK."): // sequence 0 is never used
		m.Subject, m.Data = strings.TrimSuffix(subject, ">")+"1.0.0.0.0", []byte("+WPI")
	case strings.Contains(subject, ".MSG.NEXT."):
		m.Data = []byte("{")
	case strings.HasPrefix(subject, "$O."):
		m.Subject = "$O." + events.BucketBlobs + ".C.probe"
		m.Header.Set(nats.ExpectedStreamHdr, "none")
	case !strings.HasPrefix(subject, "$JS."):
		m.Header.Set(nats.ExpectedStreamHdr, "none")
	}
	return m
}

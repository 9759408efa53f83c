package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"debrief/events/redact"
)

// If a server disappears with its machine or its network, the connection still looks open. By default the client pings
// it every 2 minutes and reconnects after the third missing answer. With these values it connects to another server of
// the cluster after 6 to 9 seconds, about the time that a cluster needs to elect a leader.
const (
	PingInterval = 3 * time.Second
	MaxPings     = 2
)

// outage is a time without an answer from JetStream.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero after the last answer
}

// recordAnswer records the error of a JetStream request. A server that is cut off from its cluster keeps its clients
// but cannot serve them. After Policy.ReconnectAfter without an answer, the connection changes to the next known
// server, or reconnects to the only one.
func (p *publisher) recordAnswer(err error) {
	silent := Unreachable(err) || errors.Is(err, context.DeadlineExceeded)
	now := time.Now()
	p.outage.mu.Lock()
	defer p.outage.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled): // no information
	case !silent, !p.nc.IsConnected(): // a disconnected client already looks for another server
		p.outage.since = time.Time{}
	case p.outage.since.IsZero():
		p.outage.since = now
	case now.Sub(p.outage.since) >= p.policy.ReconnectAfter:
		p.outage.since = now
		p.log.Warn().Err(err).Str("server", redact.Address(p.nc.ConnectedUrl())).Msg("JetStream does not answer through this server: connecting to another one")
		_ = p.nc.ForceReconnect() // fails only on a closed connection
	}
}

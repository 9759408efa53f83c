package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"debrief/events/redact"
)

// A server that is gone without a word, with its machine or its network, leaves a connection that looks sound. By itself
// the client asks it every 2 minutes and gives up after the third silence. With these a program is on its way to another
// server of the cluster after 6 to 9 seconds, about as long as a cluster takes to elect a leader.
const (
	PingInterval = 3 * time.Second
	MaxPings     = 2
)

// quiet is since when the streams have not answered.
type quiet struct {
	mu    sync.Mutex
	since time.Time // zero when they last did
}

// heard takes note of what came of a request to the streams. A server that is cut off from the others of its cluster keeps
// its clients and can do nothing for them: without an answer for as long as the policy's Leave the connection goes on to
// the next server that it knows, or comes back to the only one.
func (c *Conn) heard(err error) {
	silent := Unreachable(err) || errors.Is(err, context.DeadlineExceeded)
	now := time.Now()
	c.quiet.mu.Lock()
	defer c.quiet.mu.Unlock()
	switch {
	case errors.Is(err, context.Canceled): // says nothing
	case !silent, !c.nc.IsConnected(): // who is not connected is on the way to another one
		c.quiet.since = time.Time{}
	case c.quiet.since.IsZero():
		c.quiet.since = now
	case now.Sub(c.quiet.since) >= c.policy.Leave:
		c.quiet.since = now
		c.log.Warn().Err(err).Str("server", redact.Address(c.nc.ConnectedUrl())).Msg("the streams do not answer through this server: trying another one")
		_ = c.nc.ForceReconnect() // fails when the connection is closed
	}
}

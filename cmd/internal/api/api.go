package api

import (
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/body"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/events/bus"
	"debrief/events/service"
)

// Options are the options of New.
type Options struct {
	// Tokens are the named tokens. Nil requires none, and accepts only requests that name the loopback.
	Tokens *tokens.Set
	// Local is the token of every request to a handler that only this process calls. Nil: requests are authenticated.
	Local *tokens.Token
	// Conn is the connection to the streams and buckets. Nil serves only contexts, executions and feedback.
	Conn *bus.Conn
	// Index has the executions, logs and changes in memory. The caller runs it; its end ends the streams of events. Required with Conn.
	Index *index.Index
	// Settings are the settings of the program, for people.
	Settings program.Effective
	Log      zerolog.Logger
	// OnResponse is called for each response. The verb is "" for an unknown path. Nil disables it.
	OnResponse service.Observer
}

// limits are the limits of requests.
type limits struct {
	body     time.Duration // for reading the body
	response time.Duration // from the headers to the end of the response, without the wait for a worker

	pace   body.Pace // of bodies
	memory int64     // maximum bytes of all bodies that are read or handled
}

var defaultLimits = limits{
	body: 30 * time.Second, response: time.Minute, pace: body.Pace{Step: 8 << 10, Window: 2 * time.Second}, memory: 128 << 20,
}

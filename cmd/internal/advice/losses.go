package advice

import (
	"sync"
	"time"

	"github.com/rs/zerolog"
)

// lossInterval is the least time between two lines about lost calls. A server that fails loses all calls; a metric counts them.
const lossInterval = 10 * time.Second

// losses logs calls that are not captured: the first one at once, and then at most one line for each interval, with the number of
// calls. It is safe for concurrent use.
type losses struct {
	log      zerolog.Logger
	interval time.Duration

	mu    sync.Mutex
	calls int   // since the last line
	err   error // of the last call
	quiet bool  // until the end of the interval
}

func (l *losses) add(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.err = l.calls+1, err
	if !l.quiet {
		l.write()
	}
}

// write logs a line and begins an interval. The caller holds the lock.
func (l *losses) write() {
	l.log.Warn().Err(l.err).Int("calls", l.calls).Msg("calls of models are not captured")
	l.calls, l.quiet = 0, true
	time.AfterFunc(l.interval, l.endInterval)
}

func (l *losses) endInterval() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quiet = false; l.calls > 0 {
		l.write()
	}
}

package train

import (
	"context"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
)

// watchInterval is the time between two looks at the runs that wait.
const watchInterval = 5 * time.Second

// watch calls pass now, and again after each new run. It goes on after a pass with losses. If the server or the model is away after the
// first pass, the next look repeats the pass.
func (l *Learn) watch(ctx context.Context, log zerolog.Logger, pass func() error) error {
	learned := -1 // runs that were handed over before the last pass; -1 before the first pass
	for {
		handedOver, err := l.HandOver(ctx)
		if err != nil && ctx.Err() == nil {
			log.Warn().Err(err).Msg("runs of coding agents wait")
		}
		if handedOver != learned {
			err := pass()
			if err != nil && ctx.Err() != nil {
				return err
			}
			switch code := program.ExitCode(err); {
			case err == nil:
				learned = handedOver
			case code == program.ExitPartial:
				log.Warn().Err(err).Msg("learn")
				learned = handedOver
			case code == program.ExitUnreachable && learned >= 0:
				log.Warn().Err(err).Msg("learn")
			default:
				return err
			}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(watchInterval):
		}
	}
}

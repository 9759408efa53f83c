package train

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/events"
)

// warnOfMissingData logs what the store of the embedded server lacks: the recorded losses, and the streams that did not exist before the
// command connected, although the store had others. It does nothing for a server of another process.
func warnOfMissingData(ctx context.Context, c *program.Common, flags *cli.ServerFlags, s *cli.Session, connecting time.Time) error {
	if s.Server == nil {
		return nil
	}
	flags.WarnOfDamage(c)
	var created []string
	isOld := false // the store had streams before
	for _, name := range []string{events.StreamTasks, events.StreamExecutions, events.StreamReflections, events.StreamDeltas} {
		stream, err := s.JetStream().Stream(ctx, name)
		if err != nil {
			return fmt.Errorf("open stream %s: %w", name, err)
		}
		if stream.CachedInfo().Created.Before(connecting) {
			isOld = true
		} else {
			created = append(created, name)
		}
	}
	if isOld && len(created) > 0 {
		log := c.Logger()
		log.Warn().Strs("streams", created).Msg("damage: these streams were missing and are now empty; if the restore of a backup was interrupted, repeat it with --replace")
	}
	return nil
}

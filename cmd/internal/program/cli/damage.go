package cli

import (
	"context"
	"fmt"
	"time"

	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/events/bus"
	"debrief/events/inspect"
	"debrief/events/natsd"
)

// Damage lists missing messages: gaps in the streams, and losses that the embedded server recorded in its directory.
// It reads every message of a stream of at most maxRead bytes, and only the state of a larger one.
func (p ServerFlags) Damage(ctx context.Context, conn *bus.Conn, maxRead uint64) ([]inspect.Damage, error) {
	all, err := inspect.CheckDamage(ctx, conn, maxRead)
	if err != nil || !p.Embedded() {
		return all, err
	}
	found, err := natsd.ReadDamage(p.Dir())
	if err != nil {
		return nil, fmt.Errorf("read the damage report in %s: %w", p.Dir(), err)
	}
	for _, d := range found {
		text := fmt.Sprintf("%s (found %s)", d.Text, d.Time.Local().Format(time.DateTime))
		all = append(all, inspect.Damage{Stream: d.Stream, Text: text, Lost: !d.Repaired, Repaired: d.Repaired})
	}
	return all, nil
}

// WarnOfDamage logs the losses that the embedded server recorded.
func (p ServerFlags) WarnOfDamage(c *program.Common) {
	found, err := natsd.ReadDamage(p.Dir())
	log := c.Logger()
	if err != nil {
		log.Warn().Err(err).Msg("read the damage report")
	}
	for _, d := range found {
		log.Warn().Str("stream", d.Stream).Time("found", d.Time).Msg("damage: " + d.Text + "; " + doctor.DamageFix)
	}
}

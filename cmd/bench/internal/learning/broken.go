package learning

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/bench/internal/table"
	"debrief/cmd/internal/stats"
	"debrief/cmd/internal/worlds"
	"debrief/events/liveness"
)

// brokenPart measures learning with broken replies of the models. Each call is broken independently of all others.
var brokenPart = worldPart{
	name: "broken", title: "accuracy with broken replies of the models, each call independently",
	arms: armNames(func(a *worldArm) bool { return strings.HasPrefix(a.name, "broken-") }), tasks: 600, quick: 100,
	columns: []column{
		{accuracyKey, "accuracy", percentInterval},
		{"dead_letters_per_task", "dead letters", percent},
		{"longest_stall_seconds", "longest stall, s", number1},
		{"status_yellow", "yellow", percent},
		{"status_red", "red", percent},
		{"status_not_green", "not green", percent},
		{"status_worst", "worst status", number1},
		{"model_calls_per_task", "calls", number2},
		{"seconds", "s", count},
	},
	errors: func() worlds.Imperfection {
		e := worlds.Default()
		e.BrokenJSON = 0 // the arm breaks the replies
		return e
	},
	run: runBroken, goals: brokenGoals,
}

// runBroken learns and watches the health of the roles meanwhile.
func runBroken(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) (points []*point, err error) {
	w, err := b.open(r)
	if err != nil {
		return nil, err
	}
	// The roles log each broken reply as a warning.
	c, err := openClassroom(ctx, w, r, b, log.Level(zerolog.ErrorLevel))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	began := time.Now()
	watched := watchHealth(ctx, c)
	err = c.learn(ctx, b.tasks)
	health := watched()
	if err != nil {
		return nil, err
	}
	p, err := c.evaluate(ctx)
	if err != nil {
		return nil, err
	}
	p.label = fmt.Sprintf("%.0f %% broken", 100*r.arm.broken)
	p.values["seconds"] = time.Since(began).Seconds()
	for key, x := range health {
		p.values[key] = x
	}
	return []*point{p}, nil
}

// healthInterval is the time between two checks of the health.
const healthInterval = 250 * time.Millisecond

// minNotGreen is the share of checks that must find a status of yellow or red.
const minNotGreen = 0.8

// watchHealth checks the health of the roles until the returned function is called. It returns the share of checks by
// status, the worst status (0 green, 1 yellow, 2 red), and the longest time in which messages waited for a role that handled
// none.
func watchHealth(ctx context.Context, c *classroom) func() map[string]float64 {
	ctx, stop := context.WithCancel(ctx)
	process := liveness.NewProcess(c.session.Conn, "bench", 0)
	values := map[string]float64{"longest_stall_seconds": 0, "status_worst": 0}
	checks := make(map[liveness.Level]int)
	var done sync.WaitGroup
	done.Go(func() {
		handled, since := make(map[string]uint64), make(map[string]time.Time)
		for tick := time.NewTicker(healthInterval); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
			report := process.Check(ctx)
			if ctx.Err() != nil {
				continue
			}
			checks[report.Level]++
			values["status_worst"] = max(values["status_worst"], float64(report.Level.Rank()))
			now := time.Now()
			for i := range report.Roles {
				role := &report.Roles[i]
				n := role.Vitals.Stored + role.Vitals.Handled + role.Vitals.Dead
				if role.Work.Idle() || n != handled[role.Vitals.Role] || since[role.Vitals.Role].IsZero() {
					handled[role.Vitals.Role], since[role.Vitals.Role] = n, now
				}
				values["longest_stall_seconds"] = max(values["longest_stall_seconds"], now.Sub(since[role.Vitals.Role]).Seconds())
			}
		}
	})
	return func() map[string]float64 {
		stop()
		done.Wait()
		all := 0
		for _, n := range checks {
			all += n
		}
		values["status_yellow"] = float64(checks[liveness.Yellow]) / float64(max(all, 1))
		values["status_red"] = float64(checks[liveness.Red]) / float64(max(all, 1))
		values["status_not_green"] = values["status_yellow"] + values["status_red"]
		return values
	}
}

func brokenGoals(t *table.Table, rows []worldRow) {
	goal := func(r *worldRow, key string, met func(stats.Estimate) bool, text, unit string, scale float64) {
		if e, ok := r.Values[key]; ok {
			t.Goal(met(e), r.World+", "+r.Arm+": "+text, "%.1f%s", scale*e.Mean, unit)
		}
	}
	for i := range rows {
		r := &rows[i]
		if r.Arm == brokenArm(0) {
			continue
		}
		if r.Difference != nil {
			t.Goal(r.Difference.Mean >= -0.05, r.World+", "+r.Arm+": within 5 points of no broken replies", "%+.1f", 100*r.Difference.Mean)
		}
		goal(r, "dead_letters_per_task", func(e stats.Estimate) bool { return e.Mean <= 0.01 }, "at most 1 % dead letters", " %", 100)
		goal(r, "longest_stall_seconds", func(e stats.Estimate) bool { return e.High <= 30 }, "no stall over 30 s", " s", 1)
		// The first checks come before the first broken replies.
		goal(r, "status_not_green", func(e stats.Estimate) bool { return e.Mean >= minNotGreen }, "status yellow or red in most checks", " %", 100)
	}
}

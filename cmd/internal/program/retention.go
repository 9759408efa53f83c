package program

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"debrief/events/bus"
	"debrief/events/config"
	"debrief/events/streams"
)

// Retention has the flags of the limits of streams and buckets. Their names are those of streams.Settings.
type Retention struct {
	Tasks       eventLimits  `embed:"" prefix:"tasks-" set:"what=tasks that are not answered" group:"Retention"`
	Executions  eventLimits  `embed:"" prefix:"executions-" set:"what=executions and feedback" group:"Retention"`
	Reflections eventLimits  `embed:"" prefix:"reflections-" set:"what=reflections and edits" group:"Retention"`
	Deltas      sizeLimit    `embed:"" prefix:"deltas-" set:"what=the log of the playbooks" group:"Retention"`
	Dead        eventLimits  `embed:"" prefix:"dead-" set:"what=dead letters" group:"Retention"`
	Playbook    sizeLimit    `embed:"" prefix:"playbook-" set:"what=the view of the playbooks" group:"Retention"`
	Window      cacheLimits  `embed:"" prefix:"window-" set:"what=turns and notes of sessions" group:"Retention"`
	State       cacheLimits  `embed:"" prefix:"state-" set:"what=marks of sessions and first copies" group:"Retention"`
	Contexts    cacheLimits  `embed:"" prefix:"contexts-" set:"what=served contexts" group:"Retention"`
	Vectors     cacheLimits  `embed:"" prefix:"vectors-" set:"what=embeddings" group:"Retention"`
	Runs        eventLimits  `embed:"" prefix:"runs-" set:"what=runs over data sets" group:"Retention"`
	OpenRuns    openRunLimit `embed:"" prefix:"openruns-" set:"what=open runs of the gateway" group:"Retention"`
	Captures    cacheLimits  `embed:"" prefix:"captures-" set:"what=ids of closed runs of the gateway" group:"Retention"`
	Attempts    eventLimits  `embed:"" prefix:"attempts-" set:"what=numbers of attempts" group:"Retention"`
	Blobs       eventLimits  `embed:"" prefix:"blobs-" set:"what=large payloads" group:"Retention"`
}

type eventLimits struct {
	Age  streams.Age  `name:"age" help:"Delete ${what} after this time, such as 30d; 0 for never." placeholder:"AGE" zero:"" rare:""`
	Size streams.Size `name:"size" help:"Refuse more ${what} at this size; 0 for no limit." default:"0" placeholder:"SIZE" zero:"" rare:""`
}

type sizeLimit struct {
	Size streams.Size `name:"size" help:"Refuse to extend ${what} at this size; 0 for no limit." default:"0" placeholder:"SIZE" zero:"" rare:""`
}

type cacheLimits struct {
	Age    streams.Age `name:"age" help:"Delete ${what} after this time, such as 30d; 0 for never." placeholder:"AGE" zero:"" rare:""`
	Values int64       `name:"values" help:"Drop the oldest ${what} beyond this number; 0 for no limit." placeholder:"N" zero:"" rare:""`
}

type openRunLimit struct {
	Age streams.Age `name:"age" help:"Delete ${what} after this time, such as 7d; 0 for never." placeholder:"AGE" zero:"" rare:""`
}

// SetDefaults sets each flag to the default of its setting.
func (r *Retention) SetDefaults() {
	defaults := map[string]int64{}
	for _, s := range streams.Settings() {
		defaults[s.Name] = s.Value
	}
	r.each(func(name string, value reflect.Value) { value.SetInt(defaults[name]) })
}

// each calls fn for each flag. Its name is that of its setting.
func (r *Retention) each(fn func(name string, value reflect.Value)) {
	all := reflect.ValueOf(r).Elem()
	for i := range all.NumField() {
		prefix := all.Type().Field(i).Tag.Get("prefix")
		limits := all.Field(i)
		for j := range limits.NumField() {
			fn(prefix+limits.Type().Field(j).Tag.Get("name"), limits.Field(j))
		}
	}
}

// chosen returns the settings that a flag, a variable or the file sets. A default changes no existing stream.
func (r *Retention) chosen(from Effective) (all []streams.Setting) {
	r.each(func(name string, value reflect.Value) {
		if from.Origin(name) != "default" {
			all = append(all, streams.Setting{Name: name, Value: value.Int()})
		}
	})
	return all
}

// PlanLimits returns the steps that SetLimits would apply.
func (r *Retention) PlanLimits(ctx context.Context, conn *bus.Conn, replicas int, from Effective) ([]streams.Step, error) {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	steps, err := bus.PlanStreams(ctx, conn, replicas, r.chosen(from))
	if errors.As(err, new(*config.FieldError)) {
		err = Exit(ExitUsage, config.Rename(err, func(name string) string { return "--" + name }))
	}
	return steps, err
}

// SetLimits sets the chosen limits of the existing streams, and returns the changes.
func (r *Retention) SetLimits(ctx context.Context, conn *bus.Conn, replicas int, from Effective) ([]streams.Step, error) {
	steps, err := r.PlanLimits(ctx, conn, replicas, from)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if err := bus.ApplySteps(ctx, conn, steps); err != nil {
		return nil, fmt.Errorf("set the retention: %w", err)
	}
	return steps, nil
}

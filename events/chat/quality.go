package chat

import "context"

// Quality is how well Ask could read a reply.
type Quality int

// The qualities.
const (
	Valid    Quality = iota // read as written
	Repaired                // its JSON was invalid and was repaired; a part may be lost
	Invalid                 // not usable
)

type observerKey struct{}

// ObserveReplies returns a context with an observer. Ask calls it once for each reply that it parses. The observer must be
// safe for concurrent use and must not block. It replaces the observer of ctx.
func ObserveReplies(ctx context.Context, observe func(Quality)) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// observed parses a reply and reports its quality.
func observed[T any](ctx context.Context, r Reply, parse func(Reply) (T, error)) (T, error) {
	isRepaired := false
	r.Repaired = &isRepaired // only parse gets this copy
	v, err := parse(r)
	observe, ok := ctx.Value(observerKey{}).(func(Quality))
	switch {
	case !ok:
	case err != nil:
		observe(Invalid)
	case isRepaired:
		observe(Repaired)
	default:
		observe(Valid)
	}
	return v, err
}

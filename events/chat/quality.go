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

// ObserveReplies returns a context with an observer, which replaces the observer of ctx. Ask calls it with the quality of its first reply
// only: otherwise a message that never gets a valid reply would count four times. The observer must be safe for concurrent use
// and must not block.
func ObserveReplies(ctx context.Context, observe func(Quality)) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// parseWithQuality parses a reply and returns its quality.
func parseWithQuality[T any](r Reply, parse func(Reply) (T, error)) (v T, q Quality, err error) {
	isRepaired := false
	r.Repaired = &isRepaired // only parse gets this copy
	v, err = parse(r)
	switch {
	case err != nil:
		q = Invalid
	case isRepaired:
		q = Repaired
	}
	return v, q, err
}

func reportQuality(ctx context.Context, q Quality) {
	if observe, ok := ctx.Value(observerKey{}).(func(Quality)); ok {
		observe(q)
	}
}

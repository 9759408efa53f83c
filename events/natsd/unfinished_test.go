package natsd_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events/natsd"
)

// TestStreamOfAKilledCreationStays: a kill between the two files of a new stream's settings leaves the first one alone.
func TestStreamOfAKilledCreationStays(t *testing.T) {
	t.Parallel()
	dir := store(t)
	ok(t, os.Remove(file(t, dir, "meta.sum")))
	ok(t, os.WriteFile(filepath.Join(filepath.Dir(file(t, dir, "meta.inf")), "meta.sum.tmp"), nil, 0o600))
	for range 2 {
		withServer(t, dir, func(js jetstream.JetStream) {
			s, err := js.Stream(t.Context(), "EVENTS")
			ok(t, err)
			if n := s.CachedInfo().State.Msgs; n != 60 {
				t.Errorf("got %d messages, want the 60 that were stored", n)
			}
		})
	}
	all, err := natsd.ReadDamage(dir)
	ok(t, err)
	if len(all) > 0 {
		t.Errorf("got %v, want no damage", all)
	}
}

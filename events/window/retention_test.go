package window_test

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/window"
)

// sameKey returns two ids whose first copies are in one value.
func sameKey() (a, b events.ID) {
	byKey := map[[2]byte]events.ID{}
	for i := 0; ; i++ {
		id := events.ID(strconv.Itoa(i))
		sum := sha256.Sum256([]byte(string(window.EffectTurn) + "\x00" + string(id)))
		if first, ok := byKey[[2]byte(sum[:])]; ok {
			return first, id
		}
		byKey[[2]byte(sum[:])] = id
	}
}

// TestFirstCopiesLiveAsLongAsTheirBucket makes an entry of first copies old, and stores another one in its value. The old one stays within
// the age limit of the bucket, also if that is longer than the default.
func TestFirstCopiesLiveAsLongAsTheirBucket(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		age, old int // days
		stays    bool
	}{
		"within the default":      {30, 29, true},
		"beyond the default":      {30, 40, false},
		"within a longer limit":   {90, 80, true},
		"beyond a longer limit":   {90, 100, false},
		"a limit of a single day": {1, 5, false},
		"without a limit":         {0, 4000, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, nc := bustest.Open(t, bus.Policy{})
			js := conn.JetStream()
			stream, err := js.Stream(t.Context(), "KV_"+events.BucketState)
			if err != nil {
				t.Fatal(err)
			}
			cfg := stream.CachedInfo().Config
			cfg.MaxAge = time.Duration(test.age) * 24 * time.Hour
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			s := window.New(nc, js)
			old, other := sameKey()
			record := func(id events.ID, at uint64) {
				if first, err := s.ClaimFirstCopy(t.Context(), "b", window.EffectTurn, id, at); err != nil || !first {
					t.Fatalf("%s: got %t and error %v", id, first, err)
				}
			}
			record(old, 7)
			m, err := stream.GetMsg(t.Context(), 1)
			if err != nil {
				t.Fatal(err)
			}
			var value struct {
				Entries []byte `msgpack:"e"`
			}
			if err := events.Unmarshal(m.Data, &value); err != nil {
				t.Fatal(err)
			}
			day := value.Entries[16:20]
			binary.BigEndian.PutUint32(day, binary.BigEndian.Uint32(day)-uint32(test.old))
			data, err := events.Marshal(&value)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: events.SchemaHeader(), Data: data}); err != nil {
				t.Fatal(err)
			}
			record(other, 8)
			at, err := s.FirstCopy(t.Context(), "b", window.EffectTurn, old)
			if err != nil || (at == 7) != test.stays {
				t.Errorf("got the first copy %d and error %v, want that it stays: %t", at, err, test.stays)
			}
		})
	}
}

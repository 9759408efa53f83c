package bus

import (
	"context"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/natsd"
)

func BenchmarkPublish(b *testing.B) {
	for _, sync := range []string{"1m", natsd.SyncAlways} {
		b.Run("sync="+sync, func(b *testing.B) {
			srv, err := natsd.Start(natsd.Config{Dir: b.TempDir(), Sync: sync})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(srv.Close)
			c := open(b, srv, Policy{})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := c.Publish(b.Context(), execution("main", fmt.Sprint(i)), PublishOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWorker measures one delivery through a worker: pull, decode, handle and ack, and optionally publish an
// output.
func BenchmarkWorker(b *testing.B) {
	for name, w := range map[string]Worker{
		"slots=1": {Slots: 1}, "slots=8": {Slots: 8}, "batch=256": {Slots: 2, Batch: 256},
	} {
		for _, output := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/output=%t", name, output), func(b *testing.B) {
				c := connectNew(b, Policy{MaxAckPending: 4096})
				done := make(chan int, 64)
				w.Role = events.RoleGenerator
				w.Handle = func(_ context.Context, batch []*Delivery) []Result {
					defer func() { done <- len(batch) }()
					if output {
						return answers(batch)
					}
					return make([]Result, len(batch))
				}
				b.ReportAllocs()
				n := b.N
				for i := range n {
					subject, header, data, err := events.Encode(task("main", i))
					if err != nil {
						b.Fatal(err)
					}
					if _, err := c.js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: header, Data: data}); err != nil {
						b.Fatal(err)
					}
				}
				<-c.js.PublishAsyncComplete()
				b.ResetTimer()
				start(b, c, w)
				for left := n; left > 0; left -= <-done {
				}
				b.StopTimer()
			})
		}
	}
}

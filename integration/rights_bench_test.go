//go:build unix

package integration

import (
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// BenchmarkAccounts compares separate accounts of roles with one account, per message of 512 bytes, on a server that does not
// flush every write. Client and server are in this process, so cpu-ns/op includes both, independent of other load.
func BenchmarkAccounts(b *testing.B) {
	for _, form := range []string{"one account", "accounts"} {
		s := newTLSServer(b, []string{"m"})
		s.file("limits.conf", "limits.conf")
		if form == "one account" {
			s.mergeAccounts("m")
		}
		s.serve(syncRarely...)
		operator := s.setUp("m").JetStream()
		js, err := jetstream.New(s.connect("m", events.RoleGenerator), jetstream.WithPublishAsyncMaxPending(256))
		if err != nil {
			b.Fatal(err)
		}
		data := make([]byte, 512)
		check := func(b *testing.B, err error) {
			b.Helper()
			if err != nil {
				b.Fatal(err)
			}
		}
		b.Run("publish/"+form, func(b *testing.B) {
			defer cpu(b)()
			for range b.N {
				_, err := js.Publish(b.Context(), "debrief.execution.m", data)
				check(b, err)
			}
		})
		b.Run("publish async/"+form, func(b *testing.B) {
			defer cpu(b)()
			for i := range b.N {
				_, err := js.PublishAsync("debrief.execution.m", data)
				check(b, err)
				if i%128 == 127 {
					<-js.PublishAsyncComplete()
				}
			}
			<-js.PublishAsyncComplete()
		})
		cons, err := js.Consumer(b.Context(), events.StreamTasks, events.RoleGenerator)
		check(b, err)
		fill := func(b *testing.B, n int) {
			b.Helper()
			for i := range n {
				_, err := operator.PublishAsync("debrief.task.m", data)
				check(b, err)
				if i%128 == 127 {
					<-operator.PublishAsyncComplete()
				}
			}
			<-operator.PublishAsyncComplete()
		}
		b.Run("consume and ack/"+form, func(b *testing.B) {
			fill(b, b.N)
			it, err := cons.Messages()
			check(b, err)
			defer it.Stop()
			b.ResetTimer()
			defer cpu(b)()
			for range b.N {
				m, err := it.Next()
				check(b, err)
				check(b, m.Ack())
			}
		})
		b.Run("fetch one and ack/"+form, func(b *testing.B) {
			fill(b, b.N)
			b.ResetTimer()
			defer cpu(b)()
			for range b.N {
				m, err := cons.Next()
				check(b, err)
				check(b, m.DoubleAck(b.Context()))
			}
		})
		b.Run("direct get/"+form, func(b *testing.B) {
			st, err := js.Stream(b.Context(), events.StreamExecutions)
			check(b, err)
			defer cpu(b)()
			for range b.N {
				_, err := st.GetMsg(b.Context(), 1)
				check(b, err)
			}
		})
	}
}

// cpu reports the processor time of this process per operation until the returned function is called.
func cpu(b *testing.B) func() {
	used := func() time.Duration {
		var r syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
			b.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	began := used()
	return func() { b.ReportMetric(float64(used()-began)/float64(b.N), "cpu-ns/op") }
}

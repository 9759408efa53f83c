package natsd_test

import (
	"testing"

	"debrief/events/natsd"
)

// BenchmarkStart measures the start of a program: a server, a connection and a stream.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s, err := natsd.Start(natsd.Config{Dir: b.TempDir()})
		if err != nil {
			b.Fatal(err)
		}
		stream(b, connect(b, s))
		b.StopTimer()
		s.Close()
		b.StartTimer()
	}
}

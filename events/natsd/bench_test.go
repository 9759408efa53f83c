package natsd_test

import (
	"testing"

	"debrief/events/natsd"
)

// BenchmarkStart is what a program waits for: a server, a connection to it and a stream.
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

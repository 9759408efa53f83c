package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// targets runs a benchmark against a provider: direct, through the gateway, and through it with a recorder.
func targets(b *testing.B, h http.HandlerFunc, run func(b *testing.B, c *http.Client, url string, n int)) {
	url := upstream(b, h)
	observe := func(context.Context, *Call) (*Edit, error) {
		return &Edit{Recorder: &record{done: make(chan *record, 1)}}, nil
	}
	off, c := open(b, url, gatewayOptions{})
	observed, _ := open(b, url, gatewayOptions{Mode: ModeObserve, Middle: middle(observe)})
	for _, target := range []struct{ name, url string }{{"direct", url}, {"off", off.URL()}, {"observe", observed.URL()}} {
		for _, n := range []int{1, 64, 512} {
			b.Run(fmt.Sprintf("%s/%d", target.name, n), func(b *testing.B) { run(b, c, target.url+"/v1/chat/completions", n) })
		}
	}
}

// chunk is one event of a stream, of 200 bytes.
var chunk = "data: " + strings.Repeat("x", 192) + "\n\n"

// stream answers with 50 chunks. If the request has the header X-Endless, it sends a chunk every 50 ms until the client
// disconnects.
func stream(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w).Flush
	endless := r.Header.Get("X-Endless") != ""
	for i := 0; i < 50 || endless; i++ {
		_, _ = io.WriteString(w, chunk)
		if flush() != nil || r.Context().Err() != nil {
			return
		}
		if endless {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

var prompt = strings.Repeat("x", 20<<10)

// BenchmarkFirstByte measures the time to the first byte of single calls, while n streams are open that receive 20 chunks
// a second each.
func BenchmarkFirstByte(b *testing.B) {
	targets(b, stream, func(b *testing.B, c *http.Client, url string, n int) {
		ctx, cancel := context.WithCancel(b.Context())
		var open sync.WaitGroup
		defer open.Wait()
		defer cancel()
		for range n {
			r, _ := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(prompt))
			r.Header.Set("X-Endless", "1")
			res, err := (&http.Client{Transport: c.Transport}).Do(r)
			if err != nil {
				b.Fatal(err)
			}
			open.Go(func() {
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			})
		}
		var first []time.Duration
		for b.Loop() {
			first = append(first, firstByte(b, c, url))
		}
		slices.Sort(first)
		b.ReportMetric(float64(first[len(first)/2].Microseconds()), "p50-µs")
		b.ReportMetric(float64(first[len(first)*99/100].Microseconds()), "p99-µs")
	})
}

// firstByte makes a call, and returns the time to its first byte.
func firstByte(b *testing.B, c *http.Client, url string) time.Duration {
	began := time.Now()
	res, err := c.Post(url, "application/json", strings.NewReader(prompt))
	if err != nil {
		b.Error(err)
		return 0
	}
	defer res.Body.Close()
	_, _ = io.ReadFull(res.Body, make([]byte, 1))
	took := time.Since(began)
	if size, err := io.Copy(io.Discard, res.Body); err != nil || size != int64(50*len(chunk)-1) {
		b.Errorf("got %d bytes, %v", size, err)
	}
	return took
}

// BenchmarkThroughput measures the streams a second of n clients that never pause.
func BenchmarkThroughput(b *testing.B) {
	targets(b, stream, func(b *testing.B, c *http.Client, url string, n int) {
		var left atomic.Int64
		left.Store(int64(b.N))
		var workers sync.WaitGroup
		for range n {
			workers.Go(func() {
				for left.Add(-1) >= 0 {
					firstByte(b, c, url)
				}
			})
		}
		workers.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "streams/s")
	})
}

// BenchmarkOpenStream measures the memory of an open stream. Clients and provider are in the same process: subtract direct.
func BenchmarkOpenStream(b *testing.B) {
	for _, name := range []string{"direct", "off"} {
		b.Run(name, func(b *testing.B) {
			const n = 500
			for range b.N {
				end := make(chan struct{})
				url := upstream(b, func(w http.ResponseWriter, _ *http.Request) {
					_ = http.NewResponseController(w).Flush()
					<-end
				})
				s, c := open(b, url, gatewayOptions{})
				if name == "off" {
					url = s.URL()
				}
				before := heap()
				var bodies []io.Closer
				for range n {
					res, err := c.Post(url+"/v1/responses", "application/json", strings.NewReader("{}"))
					if err != nil {
						b.Fatal(err)
					}
					bodies = append(bodies, res.Body)
				}
				b.ReportMetric(float64(heap()-before)/n, "B/stream")
				close(end)
				for _, body := range bodies {
					_ = body.Close()
				}
			}
		})
	}
}

// heap returns the bytes of the heap and of stacks in use.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

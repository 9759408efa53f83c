package proxy

import (
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
)

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

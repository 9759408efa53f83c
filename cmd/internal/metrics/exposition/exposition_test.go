package exposition

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// gather returns the text of some collectors, and what Prometheus reads in it.
func gather(t *testing.T, c ...Collector) (string, map[string]*dto.MetricFamily) {
	t.Helper()
	var r Registry
	r.Register(c...)
	var text bytes.Buffer
	if err := r.write(&text); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text.Bytes()))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text.String())
	}
	return text.String(), all
}

func TestText(t *testing.T) {
	t.Parallel()
	requests := NewCounters(NewDesc("requests_total", "Requests.", "code", "path"))
	requests.With("500", "/").Inc()
	requests.With("200", "/").Inc()
	requests.With("200", "/").Inc()
	requests.With("200", "a\"b\\c\nd")
	durations := NewHistograms(NewDesc("duration_seconds", "Durations."), []float64{.5, 1})
	for _, v := range []float64{.25, .5, .75, 2} {
		durations.With().Observe(v)
	}
	level := NewDesc("level", "Level\\\nof \"it\".", "role")
	calls := NewDesc("call_seconds", "Calls.", "role")
	got, _ := gather(t, requests, durations, CollectorFunc(func(to *Scrape) {
		to.Gauge(level, math.Inf(1), "a")
		to.Summary(calls, 4, 1.5, []Quantile{{.5, .25}, {.95, 1}}, "a")
	}), CollectorFunc(func(to *Scrape) { to.Gauge(level, -1e-9, "b") }))
	const want = `# HELP call_seconds Calls.
# TYPE call_seconds summary
call_seconds{role="a",quantile="0.5"} 0.25
call_seconds{role="a",quantile="0.95"} 1
call_seconds_sum{role="a"} 1.5
call_seconds_count{role="a"} 4
# HELP duration_seconds Durations.
# TYPE duration_seconds histogram
duration_seconds_bucket{le="0.5"} 2
duration_seconds_bucket{le="1"} 3
duration_seconds_bucket{le="+Inf"} 4
duration_seconds_sum 3.5
duration_seconds_count 4
# HELP level Level\\\nof "it".
# TYPE level gauge
level{role="a"} +Inf
level{role="b"} -1e-09
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",path="/"} 2
requests_total{code="200",path="a\"b\\c\nd"} 0
requests_total{code="500",path="/"} 1
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestPrometheusReadsLabels(t *testing.T) {
	t.Parallel()
	const value = "a\"b\\c\nd ü"
	c := NewCounters(NewDesc("n_total", "N.", "label"))
	c.With(value).Inc()
	_, all := gather(t, c)
	if m := all["n_total"].GetMetric(); len(m) != 1 || m[0].Label[0].GetValue() != value || m[0].Counter.GetValue() != 1 {
		t.Errorf("got %v, want the label %q", m, value)
	}
}

func TestWrongNumberOfLabelsPanics(t *testing.T) {
	t.Parallel()
	d := NewDesc("n_total", "N.", "label")
	for name, f := range map[string]func(){
		"vector":          func() { NewCounters(d).With() },
		"gauge":           func() { new(Scrape).Gauge(d, 1, "a", "b") },
		"too many labels": func() { NewCounters(NewDesc("n", "N.", "a", "b", "c", "d")) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: did not panic", name)
				}
			}()
			f()
		}()
	}
}

func TestConcurrentCounting(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 500
	counters := NewCounters(NewDesc("n_total", "N.", "label"))
	histograms := NewHistograms(NewDesc("n_seconds", "N."), []float64{1})
	var running sync.WaitGroup
	for i := range goroutines {
		running.Go(func() {
			for range each {
				counters.With(strconv.Itoa(i % 2)).Inc()
				histograms.With().Observe(.5)
			}
			counters.Collect(new(Scrape))
		})
	}
	running.Wait()
	_, all := gather(t, counters, histograms)
	n := 0.0
	for _, m := range all["n_total"].Metric {
		n += m.Counter.GetValue()
	}
	h := all["n_seconds"].Metric[0].Histogram
	if n != goroutines*each || h.GetSampleCount() != goroutines*each || h.GetSampleSum() != goroutines*each/2 {
		t.Errorf("got %v and %v, want %d", n, h, goroutines*each)
	}
}

func TestHandlerCompressesOnRequest(t *testing.T) {
	t.Parallel()
	var r Registry
	r.Register(CollectorFunc(Go))
	for _, encoding := range []string{"", "deflate, gzip"} {
		request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		request.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		r.Handler(1, time.Minute).ServeHTTP(w, request)
		body := io.Reader(w.Body)
		if encoding != "" {
			unpacked, err := gzip.NewReader(body)
			if err != nil {
				t.Fatal(err)
			}
			body = unpacked
		}
		text, err := io.ReadAll(body)
		if err != nil || w.Code != http.StatusOK || !strings.Contains(string(text), "\ngo_goroutines ") {
			t.Errorf("%q: got %d, %v:\n%s", encoding, w.Code, err, text)
		}
		if got := w.Header().Get("Content-Type"); got != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("%q: got the type %q", encoding, got)
		}
	}
}

func TestHandlerLimitsRequestsAndTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var r Registry
		r.Register(CollectorFunc(func(*Scrape) { <-release }))
		h := r.Handler(1, time.Second)
		get := func() int {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			return w.Code
		}
		began := time.Now()
		if code := get(); code != http.StatusServiceUnavailable || time.Since(began) != time.Second {
			t.Errorf("slow collector: got %d after %s, want 503 after 1s", code, time.Since(began))
		}
		began = time.Now()
		if code := get(); code != http.StatusServiceUnavailable || time.Since(began) != 0 {
			t.Errorf("second request: got %d after %s, want 503 at once", code, time.Since(began))
		}
		close(release)
		synctest.Wait()
		if code := get(); code != http.StatusOK {
			t.Errorf("after release: got %d, want 200", code)
		}
	})
}

func TestGo(t *testing.T) {
	t.Parallel()
	_, all := gather(t, CollectorFunc(Go))
	for name, least := range map[string]float64{
		"go_goroutines": 2, "go_threads": 1, "go_sched_gomaxprocs_threads": 1, "go_info": 1, "go_memstats_sys_bytes": 1e6,
		"go_memstats_heap_objects": 100, "go_gc_gomemlimit_bytes": 1e6, "go_memstats_alloc_bytes": 1e4,
	} {
		if m := all[name].GetMetric(); len(m) != 1 || m[0].GetGauge().GetValue() < least {
			t.Errorf("%s: got %v, want at least %v", name, m, least)
		}
	}
	if got := all["go_gc_duration_seconds"].GetMetric(); len(got) != 1 || len(got[0].GetSummary().GetQuantile()) != 5 {
		t.Errorf("go_gc_duration_seconds: got %v, want five quantiles", got)
	}
	if len(all) != 29 {
		t.Errorf("got %d metrics, want the 29 of client_golang", len(all))
	}
}

func TestProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"stat":             "cpu 1 2\nbtime 1000\n",
		"self/stat":        "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 250 150 0 0 20 0 9 0 500 4096 3 18446744073709551615\n",
		"self/limits":      "Limit                     Soft Limit           Hard Limit           Units\nMax open files            1024                 4096                 files\nMax address space         unlimited            unlimited            bytes\n",
		"self/net/netstat": "TcpExt: A B\nTcpExt: 1 2\nIpExt: InOctets Other OutOctets\nIpExt: 11 12 13\n",
		"self/fd/0":        "", "self/fd/1": "",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]float64{
		"process_cpu_seconds_total": 4, "process_open_fds": 2, "process_max_fds": 1024, "process_virtual_memory_bytes": 4096,
		"process_virtual_memory_max_bytes": math.MaxUint64, "process_resident_memory_bytes": 3 * float64(os.Getpagesize()),
		"process_start_time_seconds": 1005, "process_network_receive_bytes_total": 11, "process_network_transmit_bytes_total": 13,
	}
	_, all := gather(t, CollectorFunc(process(dir).collect))
	for name, v := range want {
		m := all[name].GetMetric()
		if len(m) != 1 || m[0].GetGauge().GetValue()+m[0].GetCounter().GetValue() != v {
			t.Errorf("%s: got %v, want %v", name, m, v)
		}
	}
	if len(all) != len(want) {
		t.Errorf("got %d metrics, want %d", len(all), len(want))
	}
	if text, _ := gather(t, CollectorFunc(process(t.TempDir()).collect)); text != "" {
		t.Errorf("without /proc: got %s", text)
	}
}

func TestProcessOfThisProcess(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("requires /proc")
	}
	_, all := gather(t, CollectorFunc(Process))
	if got := all["process_resident_memory_bytes"].GetMetric()[0].Gauge.GetValue(); got < 1e6 {
		t.Errorf("resident memory: got %v, want at least a megabyte", got)
	}
	began := time.Unix(int64(all["process_start_time_seconds"].GetMetric()[0].Gauge.GetValue()), 0)
	if age := time.Since(began); age < -time.Minute || age > time.Hour {
		t.Errorf("the process started %s ago", age)
	}
}

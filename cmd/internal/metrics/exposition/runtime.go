package exposition

import (
	"math"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"time"
)

var (
	goInfo       = NewDesc("go_info", "Version of Go; the value is always 1.", "version")
	goroutines   = NewDesc("go_goroutines", "Number of goroutines.")
	goThreads    = NewDesc("go_threads", "Number of threads that Go created.")
	goMaxThreads = NewDesc("go_sched_gomaxprocs_threads", "Number of threads that can run Go code at a time (GOMAXPROCS).")
	goGCPercent  = NewDesc("go_gc_gogc_percent", "Growth of the heap until the next garbage collection (GOGC).")
	goGCLimit    = NewDesc("go_gc_gomemlimit_bytes", "Memory limit of the garbage collector (GOMEMLIMIT).")
	goGCPauses   = NewDesc("go_gc_duration_seconds", "Pauses for garbage collection; quantiles over the last 256.")
	goGCLast     = NewDesc("go_memstats_last_gc_time_seconds", "Time of the last garbage collection, in seconds since 1970; 0 without one.")
)

// memory lists the values of runtime.MemStats.
var memory = []struct {
	*Desc
	value   func(*runtime.MemStats) uint64
	counter bool
}{
	{NewDesc("go_memstats_alloc_bytes", "Heap in use."), func(m *runtime.MemStats) uint64 { return m.Alloc }, false},
	{NewDesc("go_memstats_alloc_bytes_total", "Allocated on the heap since the start."), func(m *runtime.MemStats) uint64 { return m.TotalAlloc }, true},
	{NewDesc("go_memstats_sys_bytes", "Obtained from the system."), func(m *runtime.MemStats) uint64 { return m.Sys }, false},
	{NewDesc("go_memstats_mallocs_total", "Objects allocated on the heap since the start."), func(m *runtime.MemStats) uint64 { return m.Mallocs }, true},
	{NewDesc("go_memstats_frees_total", "Objects freed on the heap since the start."), func(m *runtime.MemStats) uint64 { return m.Frees }, true},
	{NewDesc("go_memstats_heap_alloc_bytes", "Heap in use, as go_memstats_alloc_bytes."), func(m *runtime.MemStats) uint64 { return m.HeapAlloc }, false},
	{NewDesc("go_memstats_heap_sys_bytes", "Heap obtained from the system."), func(m *runtime.MemStats) uint64 { return m.HeapSys }, false},
	{NewDesc("go_memstats_heap_idle_bytes", "Heap without objects."), func(m *runtime.MemStats) uint64 { return m.HeapIdle }, false},
	{NewDesc("go_memstats_heap_inuse_bytes", "Heap in spans with objects."), func(m *runtime.MemStats) uint64 { return m.HeapInuse }, false},
	{NewDesc("go_memstats_heap_released_bytes", "Heap returned to the system."), func(m *runtime.MemStats) uint64 { return m.HeapReleased }, false},
	{NewDesc("go_memstats_heap_objects", "Objects on the heap."), func(m *runtime.MemStats) uint64 { return m.HeapObjects }, false},
	{NewDesc("go_memstats_stack_inuse_bytes", "Stacks in use."), func(m *runtime.MemStats) uint64 { return m.StackInuse }, false},
	{NewDesc("go_memstats_stack_sys_bytes", "Stacks obtained from the system."), func(m *runtime.MemStats) uint64 { return m.StackSys }, false},
	{NewDesc("go_memstats_mspan_inuse_bytes", "Structures for spans, in use."), func(m *runtime.MemStats) uint64 { return m.MSpanInuse }, false},
	{NewDesc("go_memstats_mspan_sys_bytes", "Structures for spans, obtained from the system."), func(m *runtime.MemStats) uint64 { return m.MSpanSys }, false},
	{NewDesc("go_memstats_mcache_inuse_bytes", "Structures for caches, in use."), func(m *runtime.MemStats) uint64 { return m.MCacheInuse }, false},
	{NewDesc("go_memstats_mcache_sys_bytes", "Structures for caches, obtained from the system."), func(m *runtime.MemStats) uint64 { return m.MCacheSys }, false},
	{NewDesc("go_memstats_buck_hash_sys_bytes", "Tables of the profiler."), func(m *runtime.MemStats) uint64 { return m.BuckHashSys }, false},
	{NewDesc("go_memstats_gc_sys_bytes", "Structures of the garbage collector."), func(m *runtime.MemStats) uint64 { return m.GCSys }, false},
	{NewDesc("go_memstats_other_sys_bytes", "Other memory obtained from the system."), func(m *runtime.MemStats) uint64 { return m.OtherSys }, false},
	{NewDesc("go_memstats_next_gc_bytes", "Size of the heap that starts the next garbage collection."), func(m *runtime.MemStats) uint64 { return m.NextGC }, false},
}

// Go collects the metrics of the Go runtime. It stops the program for some microseconds.
func Go(to *Scrape) {
	to.Gauge(goInfo, 1, runtime.Version())
	to.Gauge(goroutines, float64(runtime.NumGoroutine()))
	threads, _ := runtime.ThreadCreateProfile(nil)
	to.Gauge(goThreads, float64(threads))
	to.Gauge(goMaxThreads, float64(runtime.GOMAXPROCS(0)))

	settings := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	runtimemetrics.Read(settings)
	for i, d := range []*Desc{goGCPercent, goGCLimit} {
		v := math.NaN() // if a later Go has no such value
		if settings[i].Value.Kind() == runtimemetrics.KindUint64 {
			v = float64(settings[i].Value.Uint64())
		}
		to.Gauge(d, v)
	}

	pauses := debug.GCStats{PauseQuantiles: make([]time.Duration, 5)}
	debug.ReadGCStats(&pauses)
	quantiles := make([]Quantile, len(pauses.PauseQuantiles))
	for i, p := range pauses.PauseQuantiles {
		quantiles[i] = Quantile{float64(i) / float64(len(quantiles)-1), p.Seconds()}
	}
	to.Summary(goGCPauses, uint64(pauses.NumGC), pauses.PauseTotal.Seconds(), quantiles)

	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	to.Gauge(goGCLast, float64(stats.LastGC)/1e9)
	for _, m := range memory {
		if m.counter {
			to.Counter(m.Desc, float64(m.value(&stats)))
		} else {
			to.Gauge(m.Desc, float64(m.value(&stats)))
		}
	}
}

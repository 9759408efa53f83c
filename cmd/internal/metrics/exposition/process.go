package exposition

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

var (
	processCPU       = NewDesc("process_cpu_seconds_total", "Processor time of the process, of user and system.")
	processFiles     = NewDesc("process_open_fds", "Open file descriptors.")
	processMaxFiles  = NewDesc("process_max_fds", "Limit of open file descriptors.")
	processVirtual   = NewDesc("process_virtual_memory_bytes", "Virtual memory.")
	processMaxMemory = NewDesc("process_virtual_memory_max_bytes", "Limit of virtual memory.")
	processResident  = NewDesc("process_resident_memory_bytes", "Resident memory.")
	processStart     = NewDesc("process_start_time_seconds", "Start of the process, in seconds since 1970.")
	processReceived  = NewDesc("process_network_receive_bytes_total", "Bytes that the network namespace of the process received.")
	processSent      = NewDesc("process_network_transmit_bytes_total", "Bytes that the network namespace of the process sent.")
)

// Process collects the metrics of the process from /proc, which only Linux has. It leaves out values that it cannot read.
func Process(to *Scrape) { process("/proc").collect(to) }

// process is a directory like /proc.
type process string

// ticks is the number of clock ticks per second in the files of /proc. It is 100 on every Linux that Go supports.
const ticks = 100

func (p process) collect(to *Scrape) {
	if s, ok := p.stat(); ok {
		to.Counter(processCPU, (s(userTime)+s(systemTime))/ticks)
		to.Gauge(processVirtual, s(virtualBytes))
		to.Gauge(processResident, s(residentPages)*float64(os.Getpagesize()))
		if boot, ok := parse(p.field("stat", "btime", 1)); ok {
			to.Gauge(processStart, boot+s(startTime)/ticks)
		}
	}
	if files, err := os.ReadDir(filepath.Join(string(p), "self", "fd")); err == nil {
		to.Gauge(processFiles, float64(len(files)))
	}
	if v, ok := parse(p.field("self/limits", "Max open files", 3)); ok {
		to.Gauge(processMaxFiles, v)
	}
	if v, ok := parse(p.field("self/limits", "Max address space", 3)); ok {
		to.Gauge(processMaxMemory, v)
	}
	if in, out, ok := p.octets(); ok {
		to.Counter(processReceived, in)
		to.Counter(processSent, out)
	}
}

// Positions in /proc/self/stat after the name, as in proc_pid_stat(5) minus 3.
const (
	userTime, systemTime        = 11, 12
	startTime                   = 19
	virtualBytes, residentPages = 20, 21
)

// stat returns a function that returns a number of /proc/self/stat.
func (p process) stat() (value func(int) float64, ok bool) {
	text := p.read("self/stat")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // the name may contain spaces and parentheses
	return func(i int) float64 {
		v, _ := parse(fields[i])
		return v
	}, len(fields) > residentPages
}

// octets returns the numbers of bytes that the network namespace received and sent.
func (p process) octets() (in, out float64, ok bool) {
	var names []string
	for line := range strings.Lines(p.read("self/net/netstat")) { // a line with names, then one with values
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "IpExt:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		for i := 1; i < min(len(names), len(fields)); i++ {
			switch names[i] {
			case "InOctets":
				in, _ = parse(fields[i])
			case "OutOctets":
				out, _ = parse(fields[i])
			}
		}
		return in, out, true
	}
	return 0, 0, false
}

// field returns a word of the first line that starts with a prefix, "" if there is none.
func (p process) field(file, prefix string, i int) string {
	for line := range strings.Lines(p.read(file)) {
		if words := strings.Fields(line); strings.HasPrefix(line, prefix) && i < len(words) {
			return words[i]
		}
	}
	return ""
}

// read returns a file, "" if it cannot be read.
func (p process) read(file string) string {
	text, _ := os.ReadFile(filepath.Join(string(p), file))
	return string(text)
}

// parse returns a number. "unlimited" is the largest one.
func parse(s string) (v float64, ok bool) {
	if s == "unlimited" {
		return math.MaxUint64, true
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil
}

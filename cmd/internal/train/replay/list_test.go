package replay

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

// TestRunOfAKilledProcess: nobody works on a run whose process has ended, also before its lease expires.
func TestRunOfAKilledProcess(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	ended := exec.Command(os.Args[0], "-test.run=^$") //nolint:noctx // it ends at once
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	kv, err := openBucket(t.Context(), conn.JetStream())
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]owner{
		"killed": {Host: host, PID: ended.Process.Pid}, "own": {Host: host, PID: os.Getpid()}, "elsewhere": {Host: "not-" + host, PID: ended.Process.Pid},
	} {
		value, err := json.Marshal(record{Owner: &of})
		if err == nil {
			_, err = kv.Put(t.Context(), name, value)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	all, err := ListRuns(t.Context(), conn.JetStream())
	if err != nil || len(all) != 3 {
		t.Fatalf("got %d runs, %v", len(all), err)
	}
	for _, r := range all {
		if want := r.Book != "killed"; r.Working != want {
			t.Errorf("run %s: got working %t, want %t", r.Book, r.Working, want)
		}
	}
}

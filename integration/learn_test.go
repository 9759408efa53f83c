package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestLearnResumesAfterKills kills and restarts 'debrief learn', including its server and roles, at random. In the end each
// run of the file must be stored and counted once, and the summary must cover the whole file.
func TestLearnResumesAfterKills(t *testing.T) {
	t.Parallel()
	kills, n := 5, 2000
	if os.Getenv(longEnv) != "" {
		kills, n = 40, 20_000
	}
	rng := rand.New(rand.NewPCG(chooseSeed(t), 2))
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	if err := os.WriteFile(file, []byte(writeRuns(rng, n)), 0o600); err != nil {
		t.Fatal(err)
	}
	bin := program(t, "debrief")
	learn := func(dir string) *exec.Cmd {
		return exec.Command(bin, "learn", "--data", dir, "--ack-wait", "1s", "--json", file)
	}
	whole, broken := t.TempDir(), t.TempDir()

	began := time.Now()
	want := account(t, learn(whole))
	took := time.Since(began)
	if want.Executions != n || want.Known != 0 || want.Reflected != 0 || want.Nothing != n || want.Dead != 0 || want.Unread != 1 {
		t.Fatalf("undisturbed: got %+v, want %d executions and 1 unread", want, n)
	}

	f := &fault{name: "SIGKILL of a whole 'debrief learn', with server and roles", promise: "each run of the file stored and counted once"}
	p := start(t, "learn", func() *exec.Cmd { return learn(broken) })
	for i := range kills { // first while runs are submitted, later while they are reflected on
		pause(t.Context(), took*time.Duration(i+1)/time.Duration(kills+1)/4+time.Duration(rng.Int64N(int64(took/4))))
		p.kill()
		f.hit()
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
	got := account(t, learn(broken))
	t.Logf("undisturbed in %s; %d of %d were submitted before the last kill", took.Round(time.Millisecond), got.Known, n)
	if got.Known = 0; got != want {
		t.Errorf("killed: got %+v, want %+v", got, want)
	}
	wantStored, wantBullets := readLearned(t, whole)
	if len(wantBullets) == 0 {
		t.Error("nothing was learned")
	}
	gotStored, gotBullets := readLearned(t, broken)
	if gotStored != n || wantStored != n {
		t.Errorf("got %d executions stored after kills and %d without, want %d", gotStored, wantStored, n)
	}
	if !maps.Equal(gotBullets, wantBullets) {
		t.Errorf("got  %v\nwant %v", gotBullets, wantBullets)
	}

	f.lost = max(n-gotStored, gotStored-n)
	f.report(t)

	// Another call must submit no runs.
	if got := account(t, learn(broken)); got.Known != n || got.Executions != n || got.Reflected != want.Reflected {
		t.Errorf("again: got %+v", got)
	}
}

// writeRuns writes a file of runs with all outcomes and an incomplete last line.
func writeRuns(rng *rand.Rand, n int) string {
	var file strings.Builder
	for i := range n {
		tool := fmt.Sprint("find_", rng.IntN(5))
		calls := fmt.Sprintf(`{"tool":%q,"arguments":"{\"n\":%d}","output":"Error: date must be like 2031-05-17","outcome":"failure"}`, tool, i)
		outcome := "failure"
		switch rng.IntN(4) {
		case 0:
			calls = "" // without an insight
		case 1, 2:
			calls += fmt.Sprintf(`]},{"tool_calls":[{"tool":%q,"arguments":"{\"date\":\"2031-05-17\",\"n\":%d}","output":"berth %d"}`, tool, i, i)
			outcome = "success"
		}
		fmt.Fprintf(&file, `{"question":"ship %d","answer":"a","outcome":%q,"steps":[{"tool_calls":[%s]}]}`+"\n", i, outcome, calls)
	}
	return file.String() + `{"question":"ship`
}

// learnSummary is the summary that learn prints.
type learnSummary struct {
	Executions int `json:"executions"`
	Known      int `json:"already_stored"`
	Reflected  int `json:"reflected"`
	Nothing    int `json:"nothing_to_learn"`
	Dead       int `json:"dead_letters"`
	Unread     int `json:"invalid_lines"`
}

func account(t *testing.T, cmd *exec.Cmd) (s learnSummary) {
	t.Helper()
	killWithParent(cmd)
	out, err := cmd.Output()
	if code := cmd.ProcessState.ExitCode(); code != 5 { // finished, with an unread line
		t.Fatalf("got exit code %d, error %v: %s", code, err, tail(string(out), 5))
	}
	if err := json.Unmarshal([]byte(tail(string(out), 1)), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// readLearned reads the number of executions and the counters of each bullet from a directory. It omits bullet ids, which depend
// on the order of events.
func readLearned(t *testing.T, dir string) (int, map[string]string) {
	t.Helper()
	server, url := startServerIn(t, dir, "")
	defer server.kill()
	conn := connect(t, url)
	stored := 0
	if err := conn.Events.IDs(t.Context(), events.StreamExecutions, events.KindExecution.Subject("default"), func(events.ID) { stored++ }); err != nil {
		t.Fatal(err)
	}
	w, err := deltalog.New(conn.JetStream()).Writer(t.Context(), playbook.Book("default"))
	if err != nil {
		t.Fatal(err)
	}
	bullets := map[string]string{}
	p := w.State().Playbook()
	for _, b := range p.Top(p.Len()) {
		bullets[b.Content] = fmt.Sprint(b.Helpful, b.Harmful, b.Neutral)
	}
	return stored, bullets
}

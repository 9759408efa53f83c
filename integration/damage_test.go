package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/bus"
	"debrief/events/natsd"
)

// damages change the files of a stream while its server is stopped.
var damages = []struct {
	name string
	do   func(t *testing.T, stream string) bool // returns false if the stream has no such file
}{
	{"flipped byte", func(t *testing.T, stream string) bool {
		return eachFile(t, stream, "msgs/*.blk", func(file string, data []byte) error {
			ends := recordEnds(t, data)
			data[ends[len(ends)/2]-10] ^= 1 // the end of the payload; a checksum of 8 bytes follows
			return os.WriteFile(file, data, 0o600)
		})
	}},
	{"truncated", func(t *testing.T, stream string) bool {
		return eachFile(t, stream, "msgs/*.blk", func(file string, data []byte) error { return os.Truncate(file, int64(len(data)*2/3)) })
	}},
	{"removed", func(t *testing.T, stream string) bool {
		return eachFile(t, stream, "msgs/*.blk", func(file string, _ []byte) error { return os.Remove(file) })
	}},
	{"consumer state", func(t *testing.T, stream string) bool {
		return eachFile(t, stream, "obs/*/o.dat", func(file string, data []byte) error {
			return os.WriteFile(file, bytes.Repeat([]byte{0xa5}, len(data)+1), 0o600)
		})
	}},
}

// eachFile calls fn for the matching files of a stream, except empty ones.
func eachFile(t *testing.T, stream, pattern string, fn func(file string, data []byte) error) (any bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(stream, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err == nil && len(data) > 0 {
			any = true
			err = fn(file, data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return any
}

// shortCells are the combinations for short runs: streams by damage.
var shortCells = map[string][]string{
	events.StreamExecutions: {"flipped byte", "consumer state"}, events.StreamDeltas: {"truncated"}, "KV_" + events.BucketWindow: {"removed"},
}

// TestDamageIsReported damages each stream and prints the output of up, doctor, verify and status. If none of them names
// the stream, no message may be lost. All combinations:
//
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 30m -run TestDamageIsReported | grep DAMAGE
func TestDamageIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes; run without -short")
	}
	t.Parallel()
	bin, template := program(t, "debrief"), t.TempDir()
	fillStore(t, bin, template)
	var streams []string
	for _, dir := range glob(t, filepath.Join(template, "jetstream", "*", "streams", "*")) {
		streams = append(streams, filepath.Base(dir))
	}
	held := map[string]map[string]bool{}
	for _, name := range streams {
		held[name] = contents(t, template, name)
	}
	t.Log("DAMAGE | stream | damage | up | doctor | verify | status | contents |")
	t.Log("DAMAGE | --- | --- | --- | --- | --- | --- | --- |")
	for _, name := range streams {
		for _, d := range damages {
			if os.Getenv(longEnv) == "" && !slices.Contains(shortCells[name], d.name) {
				continue
			}
			dir := filepath.Join(t.TempDir(), "store")
			if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
				t.Fatal(err)
			}
			if !d.do(t, glob(t, filepath.Join(dir, "jetstream", "*", "streams", name))[0]) {
				continue
			}
			damageCell(t, bin, dir, name, d.name, held[name])
		}
	}
}

// damageCell runs the programs on a damaged store and prints a row of the table.
func damageCell(t *testing.T, bin, dir, stream, damage string, held map[string]bool) {
	t.Helper()
	row, said := fmt.Sprintf("DAMAGE | %s | %s |", stream, damage), false
	for _, args := range [][]string{{"up"}, {"doctor"}, {"playbook", "verify", "--book", "desk"}, {"status"}} {
		text, code := runOn(t, bin, dir, args...)
		line := lineOn(text, stream)
		said = said || line != ""
		if line == "" {
			line = "nothing"
		}
		row += fmt.Sprintf(" %d: %s |", code, line)
		if args[0] == "up" && code != 0 {
			t.Errorf("%s, %s: up ended with %d:\n%s", stream, damage, code, text)
		}
	}
	lost := 0
	now := contents(t, dir, stream)
	for is := range held {
		if !now[is] {
			lost++
		}
	}
	state := "intact"
	if lost > 0 {
		state = fmt.Sprintf("%d of %d lost", lost, len(held))
	}
	t.Log(row, state, "|")
	if lost > 0 && !said || damage == "consumer state" && !said {
		t.Errorf("%s, %s: not reported: %s", stream, damage, state)
	}
}

// lineOn returns the first line that reports damage to the stream.
func lineOn(text, stream string) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "book ") { // a table header
			continue
		}
		lower := strings.ToLower(line)
		about := strings.Contains(line, stream) || stream == "KV_"+events.BucketPlaybook && strings.Contains(line, "view")
		for _, word := range []string{"damage", "lost", "missing", "broken", "behind", "is gone"} {
			if about && strings.Contains(lower, word) {
				line = strings.Join(strings.Fields(line), " ")
				return strings.ReplaceAll(line[:min(len(line), 200)], "|", "/")
			}
		}
	}
	return ""
}

// runOn runs a command on a store. It stops 'debrief up' when it is ready.
func runOn(t *testing.T, bin, dir string, args ...string) (text string, code int) {
	t.Helper()
	args = append(slices.Clone(args), "--data", dir)
	if args[0] != "up" {
		out, err := exec.Command(bin, args...).CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if exit != nil {
			code = exit.ExitCode()
		}
		return string(out), code
	}
	p := start(t, "up", func() *exec.Cmd {
		return exec.Command(bin, append(args, "--listen", "127.0.0.1:0", "--http", "none", "--health", "127.0.0.1:0")...)
	})
	p.line()
	code, err := p.stop()
	if err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(log), code
}

// fillStore runs a pipeline on a store until all streams contain messages.
func fillStore(t *testing.T, bin, dir string) {
	t.Helper()
	listen := freeAddress(t)
	p := start(t, "up", func() *exec.Cmd {
		return exec.Command(bin, "up", "--data", dir, "--listen", listen, "--http", "none", "--health", "127.0.0.1:0")
	})
	p.line()
	conn := connect(t, "nats://"+listen)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	publish := func(e events.Event) {
		if _, err := conn.Publish(ctx, e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h := newExpectedBook(t, ctx, conn, "desk")
	rng := rand.New(rand.NewPCG(14, 10))
	for i := range 60 {
		e := &events.Execution{Book: "desk", ID: events.NewID(), RunID: fmt.Sprint(i), Question: "How is an order changed?", Answer: strings.Repeat("So. ", 50), Started: time.Now().UTC()}
		publish(e)
		task := &events.Task{Book: "desk", ID: fmt.Sprint(i), Question: strings.Repeat("How? ", 50), Created: time.Now().UTC()}
		publish(task)
		if i%6 == 0 {
			h.voteAndTeach(t, ctx, conn, rng)
		}
		if _, err := conn.JetStream().Publish(ctx, events.KindExecution.Subject("desk"), []byte(fmt.Sprint("no event ", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, bucket := range []string{events.BucketWindow, events.BucketState, events.BucketContexts, events.BucketVectors, events.BucketRuns, events.BucketOpen, events.BucketCaptures} {
		kv, err := conn.JetStream().KeyValue(ctx, bucket)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if _, err := kv.Put(ctx, fmt.Sprint("key-", i), bytes.Repeat([]byte{byte('a' + i%26)}, 300)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 10 {
		if _, err := blob.New(conn.JetStream()).Put(ctx, "", bytes.Repeat([]byte{byte(i)}, 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range []string{events.RoleReflector, events.RoleCurator} {
		eventually(t, time.Minute, role+" is done", func() error {
			if idle, err := conn.Consumers.Idle(ctx, role); err != nil || !idle {
				return fmt.Errorf("is at work: %w", err)
			}
			return nil
		})
	}
	awaitView(t, ctx, conn, "desk")
	if code, err := p.stop(); err != nil || code != 0 {
		t.Fatalf("stop: %d, %v", code, err)
	}
}

// contents returns subjects and payloads of a stream's messages, without the server's markers.
func contents(t *testing.T, dir, stream string) map[string]bool {
	t.Helper()
	server, err := natsd.Start(natsd.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	nc, err := server.Connect()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := bus.Attach(nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all, err := readAll(t.Context(), conn.JetStream(), stream, ">")
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, m := range all {
		held[m.subject+"\x00"+string(m.data)] = true
	}
	return held
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: file not found (%v)", pattern, err)
	}
	return all
}

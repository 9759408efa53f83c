package integration

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
)

// canaries are the texts of one user that no other text contains, each in the form in which an agent sends it.
type canaries []string

// newCanaries returns 20 texts of a user: plain, encoded and compressed.
func newCanaries(user string) (all canaries) {
	forms := []func(string) string{
		same,
		func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		func(s string) string { return hex.EncodeToString([]byte(s)) },
		func(s string) string { return url.QueryEscape(s + " / é") },
		func(s string) string {
			var out bytes.Buffer
			w := gzip.NewWriter(&out)
			_, _ = w.Write([]byte(s)) // a buffer takes all
			_ = w.Close()
			return base64.StdEncoding.EncodeToString(out.Bytes())
		},
	}
	for i := range 20 {
		all = append(all, forms[i%len(forms)](fmt.Sprintf("canary of %s number %d", user, i)))
	}
	return all
}

// in returns the numbers of the canaries that the files of a directory contain.
func (c canaries) in(t *testing.T, dir string) (found []int) {
	t.Helper()
	var data []byte
	err := filepath.WalkDir(dir, func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		data = append(data, content...)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range c {
		if bytes.Contains(data, []byte(text)) {
			found = append(found, i)
		}
	}
	return found
}

// tasksOf gives each task a user and a session of that user. The tasks of the users in planted say a canary each, as long as there are any: in
// the question, in the context, or in a context that is too large for a message.
func tasksOf(tasks []*events.Task, users int, planted map[string]canaries) {
	said := map[string]int{}
	for i, task := range tasks {
		task.User = fmt.Sprintf("user-%03d", i%users)
		task.Session = fmt.Sprintf("visit-%d-of-%s", i/users/5, task.User)
		n := said[task.User]
		if n >= len(planted[task.User]) {
			continue
		}
		said[task.User]++
		switch text := planted[task.User][n]; n % 3 {
		case 0:
			task.Question += "\nThe customer says: " + text
		case 1:
			task.Context = "From the letter: " + text
		case 2:
			task.Context = strings.Repeat("A page of the contract.\n", bus.MaxInline/20) + text
		}
	}
}

// TestOneOfManyUsersIsErased erases two of many users while roles work, and kills the command and the server on the way. Afterwards no
// text of them may be in the files of the server, in a newer backup, in an older backup that was restored and erased again, or come back
// when agents send the runs again. The texts of a third user must stay. The long form:
//
//	DEBRIEF_LONG=1 go test ./integration -run TestOneOfManyUsersIsErased -v -timeout 60m
func TestOneOfManyUsersIsErased(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	users, runs, kills := 10, 250, 3
	if os.Getenv(longEnv) != "" {
		users, runs, kills = 100, 10_000, 12
	} else {
		t.Parallel()
	}
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	seed := chooseSeed(t)
	rng := rand.New(rand.NewPCG(seed, 33))
	dir := t.TempDir()
	server, address := startServerIn(t, dir, "")
	conn := connect(t, address)
	workers := startRoles(t, address, startModel(t, 0))

	erased, other := []string{"user-003", "user-004"}, "user-005"
	planted := map[string]canaries{other: newCanaries(other)}
	for _, user := range erased {
		planted[user] = newCanaries(user)
	}
	tasks := invoices(rng, runs)
	tasksOf(tasks, users, planted)
	send := func(tasks []*events.Task) (refused int) {
		for _, task := range tasks {
			if _, err := conn.Publish(ctx, task, bus.PublishOptions{}); err != nil {
				if ctx.Err() != nil {
					t.Fatal(err)
				}
				refused++
			}
		}
		return refused
	}
	if refused := send(tasks); refused > 0 {
		t.Fatalf("%d tasks were refused before the erasure", refused)
	}
	awaitSettled(t, ctx, conn)
	for user, texts := range planted {
		if got := texts.in(t, dir); len(got) != len(texts) {
			t.Fatalf("control: found %v of the %d texts of %s before the erasure, want all", got, len(texts), user)
		}
	}
	older := filepath.Join(t.TempDir(), "older")
	debrief(t, ctx, "backup", "create", older, "--nats", address)

	began := time.Now()
	var all sync.WaitGroup
	for n, user := range erased {
		own := rand.New(rand.NewPCG(seed, uint64(n)))
		all.Go(func() {
			for range kills {
				cmd := exec.CommandContext(ctx, program(t, "debrief"), "playbook", "erase", "--end-user", user, "--yes", "--nats", address)
				if err := cmd.Start(); err != nil {
					t.Error(err)
					return
				}
				pause(ctx, time.Duration(own.IntN(3000))*time.Millisecond)
				_ = cmd.Process.Kill() // may have ended
				_ = cmd.Wait()
			}
		})
	}
	for range kills {
		pause(ctx, time.Duration(rng.IntN(3000))*time.Millisecond)
		server.kill()
		if err := server.start(); err != nil {
			t.Fatal(err)
		}
		server.line()
	}
	all.Wait()
	for _, user := range erased { // a killed command may not have begun
		debrief(t, ctx, "playbook", "erase", "--end-user", user, "--yes", "--nats", address)
	}
	debrief(t, ctx, "playbook", "erase", "--pending", "--yes", "--nats", address)
	t.Logf("two users of %d with %d runs are erased after %s, with %d kills", users, runs, time.Since(began).Round(time.Second), 3*kills)

	var again []*events.Task
	for _, task := range tasks {
		if task.User == erased[0] || task.User == erased[1] {
			again = append(again, task)
		}
	}
	t.Logf("%d of %d tasks that were sent again were refused at once", send(again), len(again))
	awaitSettled(t, ctx, conn)
	check := func(what, dir string) {
		t.Helper()
		for _, user := range erased {
			if got := planted[user].in(t, dir); len(got) > 0 {
				t.Errorf("%s: the texts %v of %s are still there", what, got, user)
			}
		}
		if got := planted[other].in(t, dir); len(got) != len(planted[other]) {
			t.Errorf("%s: found %v of the %d texts of %s, want all", what, got, len(planted[other]), other)
		}
	}
	newer := filepath.Join(t.TempDir(), "newer")
	debrief(t, ctx, "backup", "create", newer, "--nats", address)
	left := map[string]int{}
	err := conn.Events.Scan(ctx, events.StreamExecutions, events.KindExecution.Subject(desk), 1, func(e bus.Stored) error {
		if e.Err != nil {
			return e.Err
		}
		left[e.Event.(*events.Execution).User]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range users {
		user, want := fmt.Sprintf("user-%03d", i), runs/users
		if user == erased[0] || user == erased[1] {
			want = 0
		}
		if left[user] != want {
			t.Errorf("%s has %d executions, want %d", user, left[user], want)
		}
	}
	debrief(t, ctx, "playbook", "verify", "--book", string(desk), "--nats", address)
	for _, p := range workers {
		p.kill()
	}
	server.kill()
	check("after the erasure", dir)

	restored := t.TempDir()
	p, fresh := startServerIn(t, restored, "")
	debrief(t, ctx, "backup", "restore", newer, "--nats", fresh)
	p.kill()
	check("the newer backup", restored)
	if err := server.start(); err != nil {
		t.Fatal(err)
	}
	server.line()
	debrief(t, ctx, "backup", "restore", older, "--replace", "--nats", address)
	if got := planted[erased[0]].in(t, dir); len(got) < len(planted[erased[0]])/2 {
		t.Errorf("control: found only %v of the texts of %s after the restore of the older backup", got, erased[0])
	}
	for _, p := range workers {
		if err := p.start(); err != nil {
			t.Fatal(err)
		}
	}
	debrief(t, ctx, "playbook", "erase", "--pending", "--yes", "--nats", address)
	server.kill()
	check("the older backup, erased again", dir)
}

package deploy

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestSetupCreatesDurablesOfScalers runs 'debrief setup' and looks for the durables that the ScaledObjects name.
func TestSetupCreatesDurablesOfScalers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	url := startServer(t)
	if out, err := exec.Command(program(t, "debrief"), "setup", "--nats", url, "--wait-server", "30s").CombinedOutput(); err != nil {
		t.Fatalf("setup: %v\n%s", err, out)
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for role, stream := range roleStream {
		if _, err := js.Consumer(ctx, stream, role); err != nil {
			t.Errorf("durable %s of %s: %v", role, stream, err)
		}
	}
}

// startServer starts the server of the image on a free port.
func startServer(t *testing.T) (url string) {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(program(t, "nats-server"), "-a", "127.0.0.1", "-p", "-1", "-js", "-sd", dir, "--ports_file_dir", dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var ports struct{ NATS []string }
	for deadline := time.Now().Add(30 * time.Second); len(ports.NATS) == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the server did not write its ports file")
		}
		names, _ := filepath.Glob(filepath.Join(dir, "*.ports"))
		for _, name := range names {
			if text, err := os.ReadFile(name); err == nil {
				_ = json.Unmarshal(text, &ports) // the file may be incomplete
			}
		}
	}
	return ports.NATS[0]
}

package console

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
)

var tourDir = flag.String("tour", "", "write the screenshots of the tour to this directory")

// TestTour writes the screenshots of the tour in README.md. Everything in them comes from commands: a server with the simulated model of
// the demo, two training runs, and tasks of one session.
//
//	go test ./cmd/internal/console -run TestTour -tour "$PWD/cmd/internal/console/tour"
func TestTour(t *testing.T) {
	if *tourDir == "" {
		t.Skip("writes files: run with -tour DIR")
	}
	s := startDebrief(t)
	s.learn(t)
	b := openTab(t, &installation{open: &httptest.Server{URL: s.url}})
	bullet := s.list(t, "/books/invoices/bullets?sort=lift&limit=1")[0]["id"].(string)
	wrong := s.list(t, "/books/invoices/executions?outcome=failure&limit=1")[0]["handle"].(string)
	for _, shot := range []struct {
		name, path, theme string
		width, height     int64
	}{
		{"overview", "/", "light", 1280, 860},
		{"overview-dark", "/", "dark", 1280, 860},
		{"bullets", "/books/invoices?sort=lift", "light", 1280, 760},
		{"bullet", "/books/invoices/bullets/" + bullet, "light", 1280, 900},
		{"execution", "/books/invoices/executions/" + wrong, "light", 1280, 1200},
		{"review", "/books/billing/review", "light", 1280, 800},
		{"curve", "/books/invoices/curve", "dark", 1280, 760},
		{"compare", "/runs/invoices/compare?with=invoices-short", "light", 1280, 700},
		{"phone", "/books/billing/review", "dark", 390, 844},
	} {
		b.theme(shot.theme)
		b.resize(shot.width)
		send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: shot.width, Height: shot.height, DeviceScaleFactor: 1, Mobile: shot.width < 600})
		b.visit(shot.path)
		if b.status != http.StatusOK {
			t.Errorf("%s: got status %d", shot.path, b.status)
		}
		data := send(b, page.CaptureScreenshot, page.CaptureScreenshotParams{}).Data
		check(t, os.WriteFile(filepath.Join(*tourDir, shot.name+".png"), smaller(t, data), 0o644))
	}
}

// smaller encodes a PNG again with the best compression.
func smaller(t *testing.T, data []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	check(t, err)
	var out bytes.Buffer
	check(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, img))
	if out.Len() < len(data) {
		return out.Bytes()
	}
	return data
}

// program runs commands of debrief on a directory with data.
type learner struct {
	bin, dir, url string
}

// startDebrief builds debrief and starts a server until the end of the test.
func startDebrief(t *testing.T) *learner {
	t.Helper()
	s := &learner{dir: t.TempDir()}
	s.bin = filepath.Join(s.dir, "debrief")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.bin, "debrief/cmd/debrief").CombinedOutput()
	if err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	address := freeAddress(t)
	s.url = "http://" + address
	ctx, cancel := context.WithCancel(context.Background())
	up := s.command(ctx, "up", "--simulated", "--burst", "5", "--listen", freeAddress(t), "--http", address)
	up.Cancel = func() error { return up.Process.Signal(os.Interrupt) }
	check(t, up.Start())
	t.Cleanup(func() {
		cancel()
		_ = up.Wait() // the error is that of the interrupt
	})
	eventually(t, func() error {
		resp, err := http.Get(s.url + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("not ready: status %d", resp.StatusCode)
			}
		}
		return err
	})
	return s
}

// freeAddress returns an address that nothing listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (s *learner) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, s.bin, args...)
	c.Dir, c.Env = s.dir, append(os.Environ(), "DEBRIEF_DATA_DIR="+filepath.Join(s.dir, "data"))
	return c
}

// run runs a command and returns its output.
func (s *learner) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(t.Context(), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("debrief %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// learn learns a playbook from tasks of one session, which may add five bullets in ten minutes: more go into quarantine. Then it trains
// two others.
func (s *learner) learn(t *testing.T) {
	t.Helper()
	s.run(t, "demo", "--tasks", "tasks")
	data, err := os.ReadFile(filepath.Join(s.dir, "tasks", "train.jsonl"))
	check(t, err)
	tasks := strings.SplitAfter(string(data), "\n")
	check(t, os.WriteFile(filepath.Join(s.dir, "tasks", "few.jsonl"), []byte(strings.Join(tasks[:32], "")), 0o600))
	for _, task := range tasks[:60] {
		body := strings.Replace(task, "{", `{"session": "desk-7", `, 1)
		resp, err := http.Post(s.url+"/api/v1/books/billing/tasks?wait=30s", "application/json", strings.NewReader(body))
		check(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			t.Fatalf("submit a task: got status %d", resp.StatusCode)
		}
	}
	for _, run := range []struct{ name, file, epochs string }{{"invoices-short", "few", "1"}, {"invoices", "train", "2"}} {
		s.run(t, "train", "tasks/"+run.file+".jsonl", "--test", "tasks/held-out.jsonl", "--epochs", run.epochs, "--batch", "32", "--simulated", "--name", run.name)
	}
	eventually(t, func() error {
		for _, page := range []string{"/books/billing/review", "/"} {
			if got := s.get(t, page); !strings.Contains(got, "more than 5 bullets") && page != "/" || page == "/" && strings.Count(got, " 0 waiting") != 3 {
				return fmt.Errorf("%s: not learned yet", page)
			}
		}
		return nil
	})
}

// get returns the body of a response.
func (s *learner) get(t *testing.T, path string) string {
	t.Helper()
	resp, err := http.Get(s.url + path)
	check(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	check(t, err)
	return string(data)
}

// list returns the items of a list of the API.
func (s *learner) list(t *testing.T, path string) []map[string]any {
	t.Helper()
	var reply struct {
		Items []map[string]any `json:"items"`
	}
	check(t, json.Unmarshal([]byte(s.get(t, "/api/v1"+path)), &reply))
	if len(reply.Items) == 0 {
		t.Fatalf("%s: no items", path)
	}
	return reply.Items
}

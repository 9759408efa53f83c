package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
)

// process is an operating system process that a test starts, kills and restarts. Each start begins another life.
type process struct {
	t    testing.TB
	name string
	make func() *exec.Cmd
	log  string // file with the standard error of all lives

	life  sync.Mutex // held during start
	mu    sync.Mutex
	cmd   *exec.Cmd
	stdin io.Closer
	lines chan string   // standard output
	ended chan struct{} // closed when this life ends
	err   error         // of cmd.Wait
}

// start starts a process that is killed when the test ends.
func start(t testing.TB, name string, make func() *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, name: name, make: make, log: filepath.Join(t.TempDir(), name+".log")}
	t.Cleanup(func() {
		p.kill()
		if text, _ := os.ReadFile(p.log); t.Failed() && len(text) > 0 {
			t.Logf("log of %s:\n%s", name, tail(string(text), 30))
		}
	})
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	return p
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// start starts the process unless it runs.
func (p *process) start() error {
	p.life.Lock()
	defer p.life.Unlock()
	if p.ended != nil {
		select {
		case <-p.ended:
		default:
			return nil
		}
	}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := p.make()
	killWithParent(cmd)
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	lines, ended := make(chan string, 1000), make(chan struct{})
	p.mu.Lock()
	p.cmd, p.stdin, p.lines, p.ended = cmd, in, lines, ended
	p.mu.Unlock()
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // the test does not read the output
			}
		}
		close(lines)
		err := cmd.Wait()
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(ended)
	}()
	return nil
}

// kill kills with SIGKILL and waits for the end.
func (p *process) kill() {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill() // may have ended
	<-ended
}

// current returns the command of the current life.
func (p *process) current() *exec.Cmd {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd
}

// killLife kills the process if it is still in the given life, and reports whether it was.
func (p *process) killLife(life *exec.Cmd) bool {
	p.mu.Lock()
	same, ended := p.cmd == life, p.ended
	p.mu.Unlock()
	if !same || life.Process.Kill() != nil {
		return false
	}
	<-ended
	return true
}

// stop interrupts the process and returns its exit code.
func (p *process) stop() (int, error) {
	p.mu.Lock()
	cmd, ended := p.cmd, p.ended
	p.mu.Unlock()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-ended:
		return cmd.ProcessState.ExitCode(), nil
	case <-time.After(40 * time.Second): // the grace is 30 s
		return 0, fmt.Errorf("stop %s: still running after 40 s", p.name)
	}
}

// line returns the next line of standard output.
func (p *process) line() string {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		if ok {
			return l
		}
	case <-time.After(30 * time.Second):
	}
	p.t.Fatalf("%s printed no line", p.name)
	return ""
}

func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd.Process.Pid
}

// signal sends a signal to the process.
func (p *process) signal(sig syscall.Signal) error { return p.current().Process.Signal(sig) }

// startServer starts a server without roles. It keeps its address after a restart.
func startServer(t testing.TB) (p *process, url string) {
	t.Helper()
	return startServerIn(t, t.TempDir(), "")
}

// startServerIn starts a server with a directory and a sync interval.
func startServerIn(t testing.TB, dir, sync string) (p *process, url string) {
	t.Helper()
	listen := freeAddress(t)
	p = start(t, "server", func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), serverEnv+"="+dir, listenEnv+"="+listen, syncEnv+"="+sync)
		return cmd
	})
	return p, p.line()
}

// startModel starts the simulated model and returns its base URL.
func startModel(t testing.TB, latency time.Duration) string {
	t.Helper()
	bin := program(t, "debrief")
	p := start(t, "model", func() *exec.Cmd {
		return exec.Command(bin, "simulate", "--address", "127.0.0.1:0", "--latency", latency.String())
	})
	line := p.line()
	return line[strings.LastIndexByte(line, ' ')+1:]
}

// startWorker starts a worker program and waits until it is ready.
func startWorker(t testing.TB, name, role string, args ...string) *process {
	t.Helper()
	return startWorkerAt(t, freeAddress(t), name, role, args...)
}

// startWorkerAt starts a worker with the given address for health checks.
func startWorkerAt(t testing.TB, health, name, role string, args ...string) *process {
	t.Helper()
	bin := program(t, role)
	p := start(t, name, func() *exec.Cmd {
		return exec.Command(bin, append([]string{"--health", health, "--log-level", "info"}, args...)...)
	})
	awaitReady(t, health)
	return p
}

// ports counts the addresses that freeAddress returned.
var ports atomic.Int32

// freeAddress returns an unused address. Its port is below the range of ephemeral ports, so that the system assigns it to no
// other process, and depends on the process id.
func freeAddress(t testing.TB) string {
	t.Helper()
	for {
		port := 12000 + (os.Getpid()*64+int(ports.Add(1)))%16000
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
}

// awaitReady waits until a program's health check is ready.
func awaitReady(t testing.TB, health string) {
	t.Helper()
	eventually(t, 30*time.Second, "ready at "+health, func() error { return ready(health) })
}

// ready returns an error unless a program's health check is ready.
func ready(health string) error {
	status, body, err := get(context.Background(), "http://"+health+"/readyz")
	if err == nil && (status != http.StatusOK || !strings.Contains(body, "running")) {
		err = fmt.Errorf("%d %s", status, body)
	}
	return err
}

// get requests a URL, and returns the status and the body of the response.
func get(ctx context.Context, url string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(data), err
}

// eventually calls try until it returns no error, at first after 5 ms, then less often. It fails the test after a time without progress: an
// error with a text that no try had before is progress, such as a count of what is left.
func eventually(t testing.TB, idle time.Duration, what string, try func() error) {
	t.Helper()
	seen := map[string]bool{}
	deadline := time.Now().Add(idle)
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		err := try()
		if err == nil {
			return
		}
		if text := err.Error(); !seen[text] {
			seen[text], deadline = true, time.Now().Add(idle)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: no progress within %s: %v", what, idle, err)
		}
		time.Sleep(wait)
	}
}

// whileStreamsMove returns a context that ends after a time in which no event was stored or acknowledged by a role.
func whileStreamsMove(t testing.TB, conn *bus.Conn, idle time.Duration, role string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		last, since := "", time.Now()
		for pause(ctx, idle/50); ctx.Err() == nil; pause(ctx, idle/50) {
			streams, err := conn.Streams(ctx)
			lag, lagErr := conn.Consumers.Lag(ctx, role)
			now := fmt.Sprint(lag.Floor)
			for _, s := range streams {
				if s.Name != "KV_"+events.BucketAttempts { // also grows while all attempts fail
					now += fmt.Sprint(" ", s.Last)
				}
			}
			if err == nil && lagErr == nil && now != last {
				last, since = now, time.Now()
			}
			if time.Since(since) > idle {
				cancel(fmt.Errorf("nothing changed within %s", idle))
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// connect connects the test. The connection survives restarts of the server.
func connect(t testing.TB, url string) *bus.Conn {
	t.Helper()
	nc, err := nats.Connect(url, nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := bus.Open(ctx, nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

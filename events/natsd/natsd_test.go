package natsd_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"debrief/events/bus/bustest"
	"debrief/events/natsd"
)

// holdEnv makes this test binary a second process that locks a directory: it prints its URL and runs until its
// standard input ends.
const holdEnv = "NATSD_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
		return
	}
	bustest.Prepare()
	goleak.VerifyTestMain(m)
}

func hold(dir string) {
	s, err := natsd.Start(natsd.Config{Dir: dir, Listen: os.Getenv(holdEnv + "_LISTEN")})
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	defer s.Close()
	fmt.Println("url:", s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// holder starts a process that locks dir, and waits for the lock.
func holder(t *testing.T, dir, listen string) (cmd *exec.Cmd, url string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+dir, holdEnv+"_LISTEN="+listen)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait() // fails if a test killed the process
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "url:")
	if err != nil || !ok {
		t.Fatalf("holder said %q, %v", line, err)
	}
	return cmd, strings.TrimSpace(url)
}

func start(t *testing.T, c natsd.Config) *natsd.Server {
	t.Helper()
	s, err := natsd.Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func connect(t testing.TB, s *natsd.Server) jetstream.JetStream {
	t.Helper()
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func stream(t testing.TB, js jetstream.JetStream) jetstream.Stream {
	t.Helper()
	st, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestRestartKeepsAcknowledgedMessages(t *testing.T) {
	dir := t.TempDir()
	s := start(t, natsd.Config{Dir: dir})
	js := connect(t, s)
	stream(t, js)
	if _, err := js.Publish(t.Context(), "s.a", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	s.Close()

	st, err := connect(t, start(t, natsd.Config{Dir: dir})).Stream(t.Context(), "S")
	if err != nil {
		t.Fatal(err)
	}
	msg, err := st.GetLastMsgForSubject(t.Context(), "s.a")
	if err != nil || string(msg.Data) != "kept" {
		t.Errorf("got %v, %v, want what was published before the restart", msg, err)
	}
}

func TestTemporaryDirectoryIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s := start(t, natsd.Config{})
	stream(t, connect(t, s))
	if found, _ := filepath.Glob(filepath.Join(os.TempDir(), "debrief-*")); len(found) != 1 {
		t.Errorf("while it runs: got %q, want one directory", found)
	}
	s.Close()
	if found, _ := filepath.Glob(filepath.Join(os.TempDir(), "debrief-*")); len(found) != 0 {
		t.Errorf("after Close: %q are left", found)
	}
}

func TestFullStoreRefusesAndRecovers(t *testing.T) {
	s := start(t, natsd.Config{Dir: t.TempDir(), Sync: "1s", MaxStore: 1 << 20})
	js := connect(t, s)
	st := stream(t, js)
	var err error
	for n := 0; err == nil; n++ {
		if n > 16 {
			t.Fatal("1 MiB of store holds more than 16 messages of 128 KiB")
		}
		_, err = js.Publish(t.Context(), "s.a", make([]byte, 128<<10))
	}
	var refused *jetstream.APIError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want the server's own refusal", err)
	}
	if err := st.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "s.a", make([]byte, 128<<10)); err != nil {
		t.Errorf("after purge: %v", err)
	}
}

func TestInUseErrorNamesTheOwner(t *testing.T) {
	for name, listen := range map[string]string{"and where it listens": "127.0.0.1:0", "and that it does not listen": ""} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			cmd, url := holder(t, dir, listen)
			_, err := natsd.Start(natsd.Config{Dir: dir})
			var inUse *natsd.InUseError
			if !errors.As(err, &inUse) {
				t.Fatalf("got %v, want an InUseError", err)
			}
			if want := (natsd.InUseError{Dir: dir, PID: cmd.Process.Pid, URL: url}); *inUse != want {
				t.Errorf("got %+v, want %+v", *inUse, want)
			}
			if (url != "") != (listen != "") || strings.Contains(err.Error(), "\n") {
				t.Errorf("url %q, error %q", url, err)
			}
			if url == "" {
				return
			}
			nc, err := nats.Connect(inUse.URL)
			if err != nil {
				t.Fatalf("connect where the error says: %v", err)
			}
			nc.Close()
		})
	}
}

func TestKilledProcessReleasesTheLock(t *testing.T) {
	dir := t.TempDir()
	cmd, _ := holder(t, dir, "127.0.0.1:0")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if _, err := os.Stat(filepath.Join(dir, "debrief.holder")); err != nil {
		t.Fatalf("the killed process left no holder file, so this test is useless: %v", err)
	}
	start(t, natsd.Config{Dir: dir})
}

func TestSecondStartInSameProcessFails(t *testing.T) {
	dir := t.TempDir()
	s := start(t, natsd.Config{Dir: dir})
	var inUse *natsd.InUseError
	if _, err := natsd.Start(natsd.Config{Dir: dir}); !errors.As(err, &inUse) || inUse.PID != os.Getpid() {
		t.Errorf("got %v, want an InUseError that names this process", err)
	}
	s.Close()
	start(t, natsd.Config{Dir: dir})
}

func TestInvalidDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := natsd.Start(natsd.Config{Dir: dir}); !errors.Is(err, syscall.ENOTDIR) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: got %v, want ENOTDIR for %s", dir, err, file)
		}
	}

	sealed := t.TempDir()
	if err := os.Chmod(sealed, 0o500); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Create(filepath.Join(sealed, "probe")); err == nil {
		f.Close()
		t.Skip("this user may write anywhere")
	}
	if _, err := natsd.Start(natsd.Config{Dir: sealed}); !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), sealed) {
		t.Errorf("got %v, want permission denied for %s", err, sealed)
	}
}

func TestListen(t *testing.T) {
	if url := start(t, natsd.Config{Dir: t.TempDir()}).URL(); url != "" {
		t.Errorf("listens on %s without being asked", url)
	}
	s := start(t, natsd.Config{Dir: t.TempDir(), Listen: ":0"})
	if !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") {
		t.Errorf("got %q, want a port of 127.0.0.1", s.URL())
	}
	nc, err := nats.Connect(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	_, err = natsd.Start(natsd.Config{Dir: dir, Listen: l.Addr().String()})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("got %v, want that %s is in use", err, l.Addr())
	}
	start(t, natsd.Config{Dir: dir}) // the failed start has unlocked the directory
}

func TestCredentialsAreRequired(t *testing.T) {
	for name, c := range map[string]natsd.Config{
		"user and password": {User: "ops", Password: "s3cret"},
		"token":             {Token: "s3cret"},
	} {
		t.Run(name, func(t *testing.T) {
			c.Dir, c.Listen = t.TempDir(), "0.0.0.0:0"
			s := start(t, c)
			connect(t, s)
			if strings.Contains(s.URL(), "s3cret") || !strings.HasPrefix(s.URL(), "nats://127.0.0.1:") {
				t.Errorf("url: got %q", s.URL())
			}
			for who, login := range map[string]nats.Option{"a stranger": nats.Name(""), "a guess": nats.UserInfo("ops", "guess")} {
				nc, err := nats.Connect(s.URL(), login)
				if !errors.Is(err, nats.ErrAuthorization) {
					t.Errorf("%s: got %v, want an authorization violation", who, err)
				}
				if err == nil {
					nc.Close()
				}
			}
		})
	}
}

// A client without a reply may have lost its network connection.
func TestSilentClientIsDisconnected(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := start(t, natsd.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "CONNECT {\"verbose\":false}\r\nPING\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	said, err := io.ReadAll(c) // until the server closes it
	if err != nil || !strings.Contains(string(said), "Stale Connection") {
		t.Errorf("got %q, error %v, want the connection closed as stale", said, err)
	}
}

func TestCloseTwiceAndConnectAfterwards(t *testing.T) {
	s := start(t, natsd.Config{Dir: t.TempDir()})
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	s.Close()
	if !nc.IsClosed() {
		t.Error("Close left a connection open")
	}
	if _, err := s.Connect(); err == nil {
		t.Error("a closed server gave out a connection")
	}
}

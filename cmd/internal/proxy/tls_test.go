package proxy

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/operate/rights"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/client"
)

// lockedBuffer is a log that a test reads while it is written.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *lockedBuffer) Count(text string) int { return strings.Count(b.String(), text) }

// certify writes a new authority, a certificate for the loopback and its key to dir, and returns a client that trusts only it.
func certify(t *testing.T, dir string) *http.Client {
	t.Helper()
	made := t.TempDir()
	if _, err := (&rights.Credentials{Dir: made}).Create(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"server.pem", "server-key.pem", "ca.pem"} {
		if err := os.Rename(filepath.Join(made, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ca, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// listenTLS starts a gateway with the certificate in dir.
func listenTLS(t *testing.T, dir string, log io.Writer) *Front {
	t.Helper()
	g := program.Gateway{HTTP: "127.0.0.1:0", GatewayMode: "off", AdviceTimeout: patience, RunIdle: time.Hour, TLSCert: filepath.Join(dir, "server.pem"), TLSKey: filepath.Join(dir, "server-key.pem")}
	f, err := Listen(Options{Gateway: g, Metrics: program.MetricsWithoutFigures("test"), Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	trusting := certify(t, dir)
	f := listenTLS(t, dir, io.Discard)
	if !strings.HasPrefix(f.URL(), "https://127.0.0.1:") || !f.server.IsOwn(f.URL()+"/v1") {
		t.Errorf("got address %s", f.URL())
	}
	resp, err := trusting.PostForm(f.URL()+"/theme", url.Values{"theme": {"dark"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if c := resp.Cookies(); len(c) != 1 || !c[0].Secure || !c[0].HttpOnly || resp.ProtoMajor != 1 {
		t.Errorf("got %s with cookies %v, want a secure one", resp.Proto, c)
	}
	if _, err := http.Get(f.URL() + "/livez"); err == nil || !strings.Contains(err.Error(), "x509") { //nolint:noctx,bodyclose // there is no response
		t.Errorf("a client without the authority: got error %v", err)
	}
	_, err = client.HTTP(f.URL(), "").Context(t.Context(), &events.ContextRequest{Query: "x"})
	if err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("the Go client without the authority: got error %v", err)
	}
	old := trusting.Transport.(*http.Transport).TLSClientConfig.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if c, err := tls.Dial("tcp", strings.TrimPrefix(f.URL(), "https://"), old); err == nil {
		_ = c.Close()
		t.Error("TLS 1.1 is accepted")
	}
	_, err = client.HTTP("http"+strings.TrimPrefix(f.URL(), "https"), "").Context(t.Context(), &events.ContextRequest{Query: "x"})
	if err == nil || !strings.Contains(err.Error(), "begin the address with https://") {
		t.Errorf("HTTP: got error %v", err)
	}
}

// TestRenewedCertificate replaces the certificate and its key one after the other, as programs that renew them do.
func TestRenewedCertificate(t *testing.T) {
	t.Parallel()
	dir, next := t.TempDir(), t.TempDir()
	var log lockedBuffer
	old, renewed := certify(t, dir), certify(t, next)
	f := listenTLS(t, dir, &log)
	reaches := func(c *http.Client) bool {
		resp, err := c.Get(f.URL() + "/livez") //nolint:noctx // a test of a local server
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil
	}
	replace := func(name string) {
		if err := os.Rename(filepath.Join(next, name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !reaches(old) || reaches(renewed) {
		t.Fatal("the first certificate is not in use")
	}
	replace("server.pem")
	for range 2 {
		if !reaches(old) {
			t.Error("a certificate without its key: want the earlier one in use")
		}
	}
	if log.Count("the earlier one stays in use") != 1 {
		t.Errorf("a certificate without its key: want one error; log: %s", log.String())
	}
	replace("server-key.pem")
	if !reaches(renewed) || reaches(old) {
		t.Errorf("the renewed certificate is not in use; log: %s", log.String())
	}
}

func TestInvalidCertificates(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	certify(t, dir)
	certify(t, other)
	cert, key := filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem")
	for _, test := range []struct{ name, cert, key, want string }{
		{"no key", cert, "", "--tls-key: required with --tls-cert"},
		{"no certificate", "", key, "--tls-cert: required with --tls-key"},
		{"missing certificate", filepath.Join(dir, "x.pem"), key, "--tls-cert, --tls-key: "},
		{"missing key", cert, filepath.Join(dir, "x.pem"), "--tls-cert, --tls-key: "},
		{"key of another certificate", cert, filepath.Join(other, "server-key.pem"), "private key does not match"},
		{"exchanged files", key, cert, "--tls-cert, --tls-key: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := program.Gateway{AdviceTimeout: patience, RunIdle: time.Hour, TLSCert: test.cert, TLSKey: test.key}
			err := g.Check()
			if err == nil || !strings.Contains(err.Error(), test.want) || program.ExitCode(err) != program.ExitUsage {
				t.Errorf("got error %v, want %s", err, test.want)
			}
			if data, _ := os.ReadFile(key); err != nil && bytes.Contains(data, []byte(err.Error())) {
				t.Error("the error has the key")
			}
		})
	}
}

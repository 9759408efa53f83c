package deploy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// proxied is a gateway behind nginx with nginx/debrief.conf, and an authentication service in the place of oauth2-proxy.
type proxied struct {
	nginx, gateway       string // URLs
	client               *http.Client
	agent, reader, proxy string // secrets
}

// TestLoginByProxy sends requests of people, of agents and of attackers through nginx, and some past it.
func TestLoginByProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("starts nginx and the programs: run without -short")
	}
	t.Parallel()
	p := startProxied(t)
	const bullet, agentPath = "content=Ask+for+the+currency.", "/api/v1/token"
	ann, body := header("Cookie", "session=ann"), header("Content-Type", "application/json")
	form := header("Content-Type", "application/x-www-form-urlencoded")
	for _, test := range []struct {
		name, method, url, body string
		headers                 []http.Header
		status                  int
		want                    string // in the body, or the location
	}{
		{"no session", "GET", p.nginx + "/books/default", "", nil, 302, "/oauth2/start?rd=/books/default"},
		{"unknown session", "GET", p.nginx + "/", "", []http.Header{header("Cookie", "session=eve")}, 302, "/oauth2/start?rd=/"},
		{"line break in the path", "GET", p.nginx + "/a%0d%0aX-Broken:%20y", "", nil, 302, "rd=/a%0d%0aX-Broken:%20y"},
		{"the service's own page", "GET", p.nginx + "/oauth2/start?rd=/", "", nil, 200, "log in here"},
		{"the check from outside", "GET", p.nginx + "/oauth2/auth", "", []http.Header{ann}, 404, ""},
		{"session of a person", "GET", p.nginx + "/status", "", []http.Header{ann}, 200, ">ann@example.com<"},
		{"person in a header of the browser", "GET", p.nginx + "/status", "", []http.Header{ann, header("X-Debrief-Person", "eve@example.com")}, 200, ">ann@example.com<"},
		{"secret in a header of the browser", "GET", p.nginx + "/status", "", []http.Header{ann, header("X-Debrief-Token", p.reader)}, 200, ">ann@example.com<"},
		{"secret and person without a session", "GET", p.nginx + "/status", "", []http.Header{header("X-Debrief-Token", p.proxy), header("X-Debrief-Person", "eve")}, 302, "/oauth2/start"},
		{"session without a name", "GET", p.nginx + "/status", "", []http.Header{header("Cookie", "session=nobody")}, 303, "/login"},
		{"form", "POST", p.nginx + "/books/default/bullets", bullet, []http.Header{ann, form, header("Origin", p.nginx)}, 303, "/books/default/bullets/"},
		{"form of another site", "POST", p.nginx + "/books/default/bullets", bullet, []http.Header{ann, form, header("Origin", "https://evil.example")}, 403, ""},
		{"form without the scope", "POST", p.nginx + "/erasures", "kind=user&name=x&again=x", []http.Header{ann, form}, 403, ""},
		{"page without the scope", "GET", p.nginx + "/erasures", "", []http.Header{ann}, 403, ""},
		{"page of another group", "GET", p.nginx + "/erasures", "", []http.Header{header("Cookie", "session=bob")}, 200, ">bob@example.com<"},
		{"groups in a header of the browser", "GET", p.nginx + "/erasures", "", []http.Header{ann, header("X-Auth-Request-Groups", "operators")}, 403, ""},
		{"secure cookie", "POST", p.nginx + "/theme", "theme=dark", []http.Header{ann, form}, 303, "Secure"},
		{"API with a token", "GET", p.nginx + agentPath, "", []http.Header{header("Authorization", "Bearer "+p.agent)}, 200, `"name":"agent"`},
		{"API with a token and a person", "GET", p.nginx + agentPath, "", []http.Header{header("Authorization", "Bearer "+p.agent), header("X-Debrief-Person", "eve")}, 200, `"name":"agent"`},
		{"API with a session", "GET", p.nginx + agentPath, "", []http.Header{ann}, 401, ""},
		{"API with the proxy's secret", "GET", p.nginx + agentPath, "", []http.Header{header("Authorization", "Bearer "+p.proxy), header("X-Debrief-Person", "eve")}, 401, "one person"},
		{"model with the proxy's secret", "POST", p.nginx + "/v1/chat/completions", "{}", []http.Header{body, header("Authorization", "Bearer "+p.proxy)}, 403, "scope"},
		{"model with a session", "POST", p.nginx + "/books/default/v1/chat/completions", "{}", []http.Header{body, ann}, 401, ""},
		{"past nginx, only a person", "GET", p.gateway + agentPath, "", []http.Header{header("X-Debrief-Person", "eve")}, 401, "unknown token"},
		{"past nginx, another token and a person", "GET", p.gateway + agentPath, "", []http.Header{header("X-Debrief-Token", p.reader), header("X-Debrief-Person", "eve")}, 200, `"name":"reader"`},
		{"past nginx, from another address", "GET", p.gateway + agentPath, "", []http.Header{header("X-Debrief-Token", p.proxy), header("X-Debrief-Person", "eve"), header("From", "127.0.0.2")}, 401, "another address"},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, text := p.send(t, test.method, test.url, test.body, test.headers)
			if status != test.status || !strings.Contains(text, test.want) || strings.Contains(text, "eve@") {
				t.Errorf("got %d %s, want %d with %s", status, text, test.status, test.want)
			}
		})
	}
	if _, log := p.send(t, "GET", p.nginx+"/api/v1/books/default/versions", "", []http.Header{header("Authorization", "Bearer "+p.reader)}); strings.Count(log, `"author"`) != 1 || !strings.Contains(log, `"author":"ann@example.com"`) {
		t.Errorf("want one version, by the person: %s", log)
	}
	p.checkEvents(t, ann)
}

func header(name, value string) http.Header { return http.Header{name: {value}} }

// send sends a request, from the address in the header From if there is one. text has the headers and the body of the response.
func (p *proxied) send(t *testing.T, method, address, body string, headers []http.Header) (status int, text string) {
	t.Helper()
	resp := p.open(t, method, address, body, headers)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, fmt.Sprint(resp.Header) + string(data)
}

func (p *proxied) open(t *testing.T, method, address, body string, headers []http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		for name, values := range h {
			r.Header[name] = values
		}
	}
	client := *p.client
	if from := r.Header.Get("From"); from != "" {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client.Transport = &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}
	}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// checkEvents reads the first line of the console's events: nginx must not collect them.
func (p *proxied) checkEvents(t *testing.T, person http.Header) {
	t.Helper()
	resp := p.open(t, "GET", p.nginx+"/live", "", []http.Header{person})
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("events: got %q, %v, %s", line, err, resp.Status)
	}
}

// startProxied starts the gateway, the service and nginx.
func startProxied(t *testing.T) *proxied {
	t.Helper()
	nginx, err := exec.LookPath("nginx")
	if err != nil {
		t.Skip("nginx is not installed: the login by a proxy was not tested")
	}
	dir := t.TempDir()
	p := &proxied{}
	debrief := program(t, "debrief")
	run := func(args ...string) string {
		out, err := exec.Command(debrief, args...).Output()
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	run("credentials", dir)
	file := filepath.Join(dir, "tokens.yaml")
	p.proxy = run("token", "new", "sso", "--file", file, "--scope", "read,review", "--proxies", "127.0.0.1")
	operators := run("token", "new", "sso-operators", "--file", file, "--scope", "read,review,operate", "--proxies", "127.0.0.1")
	p.agent = run("token", "new", "agent", "--file", file)
	p.reader = run("token", "new", "reader", "--file", file, "--scope", "read")
	p.gateway = startGateway(t, debrief, dir, file)
	service := httptest.NewServer(http.HandlerFunc(loginService))
	t.Cleanup(service.Close)

	text, err := os.ReadFile("nginx/debrief.conf")
	if err != nil {
		t.Fatal(err)
	}
	listen := freePort(t)
	site := string(text)
	for from, to := range map[string]string{"127.0.0.1:4280": host(p.gateway), "127.0.0.1:4180": host(service.URL), "listen 443 ssl": "listen " + listen + " ssl", "/etc/nginx/debrief/": dir + "/"} {
		if !strings.Contains(site, from) {
			t.Fatalf("nginx/debrief.conf has no %s", from)
		}
		site = strings.ReplaceAll(site, from, to)
	}
	main := "daemon off; pid nginx.pid; error_log stderr; events {} http { access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s; include debrief.conf; }"
	if os.Getuid() == 0 {
		main = "user root; " + main // the directory of the test is root's
	}
	write := func(name, text string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	if err := errors.Join(write("nginx.conf", main), write("debrief.conf", site), write("tokens.conf", fmt.Sprintf("map $groups $debrief_token { default %q; '~(^|,)operators(,|$)' %q; }", p.proxy, operators))); err != nil {
		t.Fatal(err)
	}
	start(t, exec.Command(nginx, "-p", dir, "-c", filepath.Join(dir, "nginx.conf")))
	p.nginx = "https://" + listen
	authority, err := os.ReadFile(filepath.Join(dir, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	p.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	for { // until then a page that takes long, on a busy machine, is answered with 503 and loads itself again
		_, identity := p.send(t, "GET", p.gateway+"/api/v1/token", "", []http.Header{header("Authorization", "Bearer "+p.reader)})
		if !strings.Contains(identity, `"reading":true`) {
			return p
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// loginService answers as oauth2-proxy does with --set-xauthrequest. The cookie is the name of the person.
func loginService(w http.ResponseWriter, r *http.Request) {
	session, _ := r.Cookie("session")
	switch {
	case r.URL.Path != "/oauth2/auth":
		_, _ = io.WriteString(w, "log in here")
	case session != nil && session.Value == "ann":
		w.Header().Set("X-Auth-Request-Email", "ann@example.com")
		w.WriteHeader(http.StatusAccepted)
	case session != nil && session.Value == "bob":
		w.Header().Set("X-Auth-Request-Email", "bob@example.com")
		w.Header().Set("X-Auth-Request-Groups", "staff,operators")
		w.WriteHeader(http.StatusAccepted)
	case session != nil && session.Value == "nobody":
		w.WriteHeader(http.StatusAccepted)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// startGateway starts 'debrief up' with tokens, and returns the URL of its gateway.
func startGateway(t *testing.T, debrief, dir, tokens string) string {
	t.Helper()
	cmd := exec.Command(debrief, "up", "--json", "--data", filepath.Join(dir, "data"), "--listen", "none", "--http", "127.0.0.1:0", "--tokens", tokens)
	cmd.Env = []string{"HOME=" + dir}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	var up struct{ Gateway string }
	if err := json.NewDecoder(out).Decode(&up); err != nil || up.Gateway == "" {
		t.Fatalf("debrief up: %v", err)
	}
	return up.Gateway
}

// start starts a program until the end of the test. The test shows what it writes to standard error.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Errorf("%s: %v\n%s", filepath.Base(cmd.Path), err, log.String())
		}
	})
}

// freePort returns an address of this machine at which nothing listened a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	var config net.ListenConfig
	l, err := config.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

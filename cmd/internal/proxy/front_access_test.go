package proxy

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/simulated"
	"debrief/playbook"
)

// TestTokensAndPaths sends a request of each token to each kind of path of the port. The routes of the API have a table of their own.
func TestTokensAndPaths(t *testing.T) {
	t.Parallel()
	fake := httptest.NewServer(withEmbeddings(simulated.NewProvider(func(*simulated.Request) simulated.Answer { return simulated.Answer{Text: "x"} })))
	t.Cleanup(fake.Close)
	grants := []apitest.Grant{{Name: "all", Scopes: tokens.Scopes}, {Name: "sales", Scopes: tokens.Scopes, Books: []playbook.Book{"sales"}}}
	for _, s := range tokens.Scopes {
		grants = append(grants, apitest.Grant{Name: string(s), Scopes: []tokens.Scope{s}})
	}
	path, secrets := apitest.Write(t, t.TempDir(), grants...)
	secrets["none"], secrets["unknown"] = "", "dbr_unknown"
	f, err := Listen(Options{
		Gateway: program.Gateway{HTTP: "127.0.0.1:0", Tokens: path, GatewayMode: "tail", AdviceTimeout: time.Millisecond, RunIdle: time.Hour, UpstreamOpenAI: fake.URL, UpstreamAnthropic: fake.URL, UpstreamOpenAIKey: "own", UpstreamAnthropicKey: "own"},
		Health:  http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), Metrics: program.MetricsWithoutFigures("test"), Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	const chat = `{"model":"m","max_tokens":99,"messages":[{"role":"user","content":"x"}],"input":"x"}`
	// The first word of a row is the status without a token and with an unknown one. The others are scopes, or books, of the tokens
	// that get through; those without get 403.
	for _, test := range []struct{ method, path, body, permits string }{
		{"POST", "/v1/chat/completions", chat, "401 context"},
		{"POST", "/v1/responses", chat, "401 context"},
		{"POST", "/v1/messages", chat, "401 context"},
		{"POST", "/v1/messages/count_tokens", chat, "401 context"},
		{"POST", "/v1/embeddings", `{"model":"m","input":["x"]}`, "401 context"},
		{"GET", "/v1/models", "", "401 context"},
		{"POST", "/anthropic/v1/messages", chat, "401 context"},
		{"POST", "/books/sales/v1/chat/completions", chat, "401 context sales"},
		{"POST", "/books/sales/anthropic/v1/messages", chat, "401 context sales"},
		{"GET", "/healthz", "", "401 read"},
		{"GET", "/metrics", "", "401 read"},
		{"GET", "/livez", "", "200"},
		{"GET", "/readyz", "", "200"},
		{"GET", "/clients/debrief.py", "", "200"},
		{"GET", "/clients/debrief.mjs", "", "200"},
		{"GET", "/nowhere", "", "404"},
	} {
		without, permits, _ := strings.Cut(test.permits, " ")
		for name, secret := range secrets {
			want := map[bool]string{true: "200", false: "403"}[permits == "" || name == "all" || strings.Contains(" "+permits+" ", " "+name+" ")]
			if name == "none" || name == "unknown" || permits == "" {
				want = without
			}
			r, err := http.NewRequestWithContext(t.Context(), test.method, f.URL()+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			if secret != "" {
				r.Header.Set("Authorization", "Bearer "+secret)
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if got := fmt.Sprint(resp.StatusCode); got != want {
				t.Errorf("%s %s with token %s: got %s, want %s", test.method, test.path, name, got, want)
			}
		}
	}
}

// TestOwnAddressAsUpstream: a gateway whose model address is its own does not start, and its error names the setting.
func TestOwnAddressAsUpstream(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	port := addr[strings.LastIndexByte(addr, ':'):]
	for _, test := range []struct{ name, openAI, anthropic, base, want string }{
		{"--base-url", "", "", "http://" + addr + "/v1", "--base-url (DEBRIEF_BASE_URL, OPENAI_BASE_URL): http://" + addr + "/v1 is the gateway's own address"},
		{"--base-url beside another upstream", "http://127.0.0.1:1", "", "http://localhost" + port + "/v1", "--base-url"},
		{"--upstream-openai", "http://[::1]" + port + "/books/b/v1", "", "", "--upstream-openai"},
		{"--upstream-anthropic", "", "http://0.0.0.0" + port + "/anthropic", "", "--upstream-anthropic"},
		{"another port", "http://127.0.0.1:1", "", "http://localhost:1/v1", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, err := Listen(Options{
				Gateway: program.Gateway{HTTP: addr, GatewayMode: "tail", AdviceTimeout: time.Millisecond, RunIdle: time.Hour, UpstreamOpenAI: test.openAI, UpstreamAnthropic: test.anthropic},
				OpenAI:  test.base, Metrics: program.MetricsWithoutFigures("test"), Log: zerolog.Nop(),
			})
			if err == nil {
				err = f.Close()
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want) || program.ExitCode(err) != program.ExitUsage) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

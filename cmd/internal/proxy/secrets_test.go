package proxy

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestTokensStayHere: the provider gets no token of Debrief in any header, cookie or query, and everything else.
func TestTokensStayHere(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprintf(w, "%s %s %v", r.Method, r.RequestURI, r.Header)
	})
	const secret = "dbr_secret-of-agent"
	s, c := open(t, url, gatewayOptions{OpenAI: Upstream{Key: "own"}, Tokens: tokenTable{secret: {Name: "agent", Scopes: mayCall}}})
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("agent:"+secret))
	for _, test := range []struct{ name, query, header, value, want string }{
		{"key of Azure", "", "Api-Key", secret, ""},
		{"another scheme", "", "Authorization", "Token " + secret, ""},
		{"basic", "", "Authorization", basic, ""},
		{"proxy header", "", "X-Goog-Api-Key", secret, ""},
		{"quoted", "", "X-Auth", `token="` + secret + `"`, ""},
		{"cookie of the console", "", "Cookie", "debrief_token=" + secret + "; debrief_theme=dark", ""},
		{"cookies of others", "", "Cookie", "a=b; debrief_token=x; c=d", "Cookie:[a=b; c=d]"},
		{"another cookie with the token", "", "Cookie", "session=" + secret, ""},
		{"query", "?key=" + secret + "&a=b", "X-Other", "kept", "/v1/models?a=b"},
		{"encoded query", "?a=%zz&key=%64br_secret-of%2Dagent&b", "X-Other", "kept", "/v1/models?a=%zz&b"},
		{"query twice", "?key=" + secret + "&Api-Key=" + secret, "X-Other", "kept", "X-Other:[kept]"},
		{"nothing to remove", "?a=b&&c=%zz", "X-Other", "kept", "/v1/models?a=b&&c=%zz"},
	} {
		res, body := do(t, c, http.MethodGet, s.URL()+"/v1/models"+test.query, "", headerToken, secret, test.header, test.value)
		if res.StatusCode != 200 || strings.Contains(body, "secret") || strings.Contains(body, basic[6:]) || strings.Contains(body, "debrief_") ||
			!strings.Contains(body, test.want) || !strings.Contains(body, "Bearer own") {
			t.Errorf("%s: the provider got %s, want %s", test.name, body, test.want)
		}
	}
}

// TestProviderCookies: a provider cannot set a cookie of the console.
func TestProviderCookies(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, cookie := range []string{"debrief_token=x; Path=/", "a=b", " Debrief_Token=y", "debrief%5Ftoken=z", "debrief_notice=n"} {
			w.Header().Add("Set-Cookie", cookie)
		}
	})
	s, c := open(t, url, gatewayOptions{})
	if res, _ := do(t, c, http.MethodGet, s.URL()+"/v1/models", ""); strings.Join(res.Header["Set-Cookie"], "|") != "a=b" {
		t.Errorf("got %q", res.Header["Set-Cookie"])
	}
}

// TestLocalPages: without tokens, a page of another port of this machine cannot call a model, whatever its content type is.
func TestLocalPages(t *testing.T) {
	t.Parallel()
	url := upstream(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
	s, c := open(t, url, gatewayOptions{})
	for _, test := range []struct {
		name   string
		header []string
		want   int
	}{
		{"a page of another port", []string{"Origin", "http://localhost:3000", "Content-Type", "text/plain"}, 403},
		{"the same with JSON", []string{"Origin", "http://127.0.0.1:1", "Content-Type", "application/json"}, 403},
		{"a new browser", []string{"Origin", "http://localhost:3000", "Sec-Fetch-Site", "same-site"}, 403},
		{"a form", []string{"Sec-Fetch-Site", "cross-site", "Content-Type", "application/x-www-form-urlencoded"}, 403},
		{"a page of this server", []string{"Origin", s.URL(), "Sec-Fetch-Site", "same-origin"}, 200},
		{"a program", []string{"Content-Type", "text/plain"}, 200},
	} {
		if res, body := do(t, c, http.MethodPost, s.URL()+"/v1/chat/completions", "{}", test.header...); res.StatusCode != test.want {
			t.Errorf("%s: got %d %s, want %d", test.name, res.StatusCode, body, test.want)
		}
	}
}

package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"debrief/events/config"
)

// Upstream is the server of a provider.
type Upstream struct {
	// URL is the base URL. For OpenAI its path takes the place of /v1, and an empty path means /v1. For Anthropic /v1 is added to the path,
	// unless the path ends with it.
	URL string
	// Key is the gateway's own API key, for clients that send none. Empty adds no key.
	Key string
}

// target is a parsed Upstream.
type target struct {
	scheme, host string
	path         string // escaped path that takes the place of /v1
	key          string
}

// target parses the settings of an upstream. An error names the field.
func (u Upstream) target(p Provider) (*target, error) {
	parsed, err := url.Parse(u.URL)
	if err != nil {
		return nil, fieldError("URL", "invalid URL") // err contains the URL, which may contain a password
	}
	isHTTP := parsed.Scheme == "http" || parsed.Scheme == "https"
	switch {
	case !isHTTP || parsed.Host == "":
		return nil, fieldError("URL", "must begin with http:// or https:// and name a host")
	case parsed.User != nil:
		return nil, fieldError("URL", "must not contain a user: set the key")
	case parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, fieldError("URL", "must have neither a query nor a fragment")
	}
	for _, c := range []byte(u.Key) {
		if c <= ' ' || c > '~' {
			return nil, fieldError("Key", "must contain only visible ASCII characters")
		}
	}
	path := strings.TrimRight(parsed.EscapedPath(), "/")
	lacksVersion := p == Anthropic && !strings.HasSuffix(path, "/v1")
	if lacksVersion || path == "" {
		path += "/v1"
	}
	return &target{scheme: parsed.Scheme, host: parsed.Host, path: path, key: u.Key}, nil
}

func fieldError(field, reason string) error {
	return &config.FieldError{Fields: []string{field}, Err: errors.New(reason)}
}

// point sets the URL of an outgoing request to a path below the target. It keeps the query.
func (t *target) point(out *http.Request, rest, query string) error {
	raw := t.path + rest
	path, err := url.PathUnescape(raw)
	if err != nil {
		return fmt.Errorf("unescape path: %w", err)
	}
	u := *out.URL
	u.Scheme = t.scheme
	u.Host = t.host
	u.Path = path
	u.RawPath = raw
	u.RawQuery = query
	out.URL, out.Host = &u, ""
	return nil
}

// newTransport returns the transport for all upstreams. A response may take any time: only connecting has limits. On HTTP/2,
// pings find dead connections.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
		DisableCompression:  true, // otherwise the transport adds Accept-Encoding and decompresses
		MaxIdleConnsPerHost: 1024,
		IdleConnTimeout:     90 * time.Second,
	}
}

package proxy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"debrief/cmd/internal/program"
)

// AutoAddr is the address for Serve that means DefaultAddr, or a free port of the same host if DefaultAddr is in use.
const AutoAddr = "auto"

// DefaultAddr is the preferred address of AutoAddr.
const DefaultAddr = "127.0.0.1:4280"

const cutTimeout = 5 * time.Second // limits the time that cut requests need to end

// Server serves a Gateway until Close.
type Server struct {
	gateway *Gateway // closed by Close; nil if another server closes the gateway
	http    http.Server
	url     string
	cut     context.CancelFunc // cancels all requests
	served  chan struct{}
}

// Serve listens on addr and serves the gateway. addr is AutoAddr, or a host:port with the default host 127.0.0.1. An address
// that is reachable from other machines requires tokens. Errors name the flags --http and --tokens.
func Serve(addr string, g *Gateway) (*Server, error) {
	if addr == AutoAddr {
		return serveAuto(DefaultAddr, g)
	}
	return serve("--http", addr, g, g)
}

// serveOnly listens on another address for some paths of a gateway. Close leaves the gateway open.
func serveOnly(flag, addr string, g *Gateway, paths ...string) (*Server, error) {
	s, err := serve(flag, addr, g, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(paths, r.URL.Path) {
			http.Error(w, "not found: this address serves only "+strings.Join(paths, " and "), http.StatusNotFound)
			return
		}
		g.ServeHTTP(w, r)
	}))
	if err == nil {
		s.gateway = nil
	}
	return s, err
}

// serveAuto listens on the preferred address, or on a free port of 127.0.0.1 if it is in use.
func serveAuto(preferred string, g *Gateway) (*Server, error) {
	s, err := serve("--http", preferred, g, g)
	if !errors.Is(err, syscall.EADDRINUSE) {
		return s, err
	}
	s, err = serve("--http", "127.0.0.1:0", g, g)
	if err == nil {
		g.o.Log.Warn().Str("used", preferred).Str("address", s.url).Msg("another program listens at the default address: set this one in agents")
	}
	return s, err
}

// serve listens on an address, the value of a flag, and serves a handler with the settings of a gateway.
func serve(flag, addr string, g *Gateway, h http.Handler) (*Server, error) {
	l, err := program.ListenTCP(addr)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if g.o.Tokens == nil && !l.Addr().(*net.TCPAddr).IP.IsLoopback() {
		_ = l.Close()
		return nil, fmt.Errorf("%s: %s is reachable from other machines: set --tokens, or listen on 127.0.0.1", flag, addr)
	}
	ctx, cut := context.WithCancel(context.Background())
	s := &Server{
		gateway: g,
		http: http.Server{ // bodies and responses have no time limit here: the handlers limit slow bodies
			Handler:           h,
			ReadHeaderTimeout: 10 * time.Second,
			IdleTimeout:       2 * time.Minute,
			MaxHeaderBytes:    64 << 10,
			BaseContext:       func(net.Listener) context.Context { return ctx },
			ErrorLog:          stdlog.New(g.o.Log, "", 0),
			Protocols:         new(http.Protocols),
			TLSConfig:         g.o.TLS,
		},
		url:    "http://" + l.Addr().String(),
		cut:    cut,
		served: make(chan struct{}),
	}
	s.http.Protocols.SetHTTP1(true) // also with TLS: HTTP/2 has no upgrade to WebSockets
	run := s.http.Serve
	if g.o.TLS != nil {
		s.url = "https://" + l.Addr().String()
		run = func(l net.Listener) error { return s.http.ServeTLS(plainListener{l}, "", "") }
	}
	go func() {
		defer close(s.served)
		if err := run(l); !errors.Is(err, http.ErrServerClosed) {
			g.o.Log.Error().Err(err).Msg("serve HTTP")
		}
	}()
	return s, nil
}

// plainListener accepts connections for HTTPS. A client that sends HTTP gets an error that all clients of the API show.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return plainConn{c}, err
}

// plainAnswer is the response to HTTP.
const plainAnswer = "HTTP/1.1 400 Bad Request\r\nContent-Type: application/problem+json\r\nConnection: close\r\n\r\n" +
	`{"title":"Bad Request","status":400,"code":"invalid","detail":"the server accepts HTTPS only: begin the address with https://"}` + "\n"

type plainConn struct{ net.Conn }

// Write replaces the response of http.Server to HTTP, a text that clients do not show. All else that it writes is encrypted.
func (c plainConn) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte("HTTP/")) {
		_, err := io.WriteString(c.Conn, plainAnswer)
		return len(p), err
	}
	return c.Conn.Write(p)
}

// URL returns the URL of the server, without a path.
func (s *Server) URL() string { return s.url }

// Close stops accepting requests, waits up to grace for those in progress, and closes the gateway. It cuts the requests that are still in
// progress after grace, and returns an error for them.
func (s *Server) Close(grace time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	closeGateway := func(context.Context) error { return nil }
	if s.gateway != nil {
		closeGateway = s.gateway.Close
	}
	err := s.http.Shutdown(ctx)
	if err == nil {
		err = closeGateway(ctx) // also WebSockets, which Shutdown does not know
	}
	s.cut()
	if err != nil { // close the gateway, again if its first close failed, now that its requests end
		cutCtx, cancel := context.WithTimeout(context.Background(), cutTimeout)
		defer cancel()
		err = fmt.Errorf("close gateway: requests were cut after %s: %w", grace, errors.Join(err, s.http.Close(), closeGateway(cutCtx)))
	}
	<-s.served
	return err
}

const resolveTimeout = 2 * time.Second // limits the look-up of one host name

// IsOwn reports whether a URL leads to this server: it has the server's port, and the name of this machine or a name or address at
// which the server listens. For a server on the loopback, these are all names of the loopback. IsOwn resolves a name only if the port is
// equal, and returns false if it is unknown.
func (s *Server) IsOwn(address string) bool {
	u, err := url.Parse(address)
	_, listener, _ := strings.Cut(s.url, "://")
	own, ownErr := netip.ParseAddrPort(listener)
	if err != nil || ownErr != nil || portOf(u) != own.Port() {
		return false
	}
	name := cmp.Or(strings.TrimSuffix(u.Hostname(), "."), "localhost")
	if host, err := os.Hostname(); err == nil && strings.EqualFold(name, host) {
		return true
	}
	ctx, cancel := context.WithTimeout(context.Background(), resolveTimeout)
	defer cancel()
	ips, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name) // an unknown name is not this server
	return slices.ContainsFunc(ips, func(ip netip.Addr) bool { return reaches(ip.Unmap().WithZone(""), own.Addr().Unmap()) })
}

// portOf returns the port of a URL, or 0 if it is invalid.
func portOf(u *url.URL) uint16 {
	service := u.Port()
	if service == "" {
		service = u.Scheme
	}
	port, err := net.LookupPort("tcp", service)
	if err != nil {
		return 0
	}
	return uint16(port)
}

// reaches reports whether connections to an IP address arrive at a listener on this machine.
func reaches(ip, listener netip.Addr) bool {
	switch {
	case ip == listener:
		return true
	case ip.IsLoopback() || ip.IsUnspecified(): // an unspecified address connects to the loopback
		return listener.IsLoopback() || listener.IsUnspecified()
	case !listener.IsUnspecified():
		return false
	}
	local, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(local, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap().WithZone("") == ip
	})
}

package gateway

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// maxHops is the maximum number of gateways that forward one call.
const maxHops = 16

// loopLogInterval is the minimum time between two warnings about loops.
const loopLogInterval = 10 * time.Second

// checkHops refuses a call that this gateway has forwarded before: its upstream leads back to it.
func (g *Gateway) checkHops(h http.Header) *failure {
	var hops []string
	for _, value := range h.Values(headerHops) {
		for id := range strings.SplitSeq(value, ",") {
			hops = append(hops, strings.TrimSpace(id))
		}
	}
	if !slices.Contains(hops, g.id) && len(hops) < maxHops {
		return nil
	}
	const message = "the call has come back to the gateway that forwarded it: an upstream leads to the gateway itself"
	now := time.Now().UnixNano()
	if last := g.loops.Load(); now-last >= int64(loopLogInterval) && g.loops.CompareAndSwap(last, now) {
		g.o.Log.Error().Str("fix", "set "+upstreamFlags(OpenAI)+", or --upstream-anthropic to the provider").Msg(message)
	}
	return refusal(http.StatusLoopDetected, "loop", message+": set the address of the provider")
}

// resolveTimeout limits the look-up of one host name.
const resolveTimeout = 2 * time.Second

// IsOwn reports whether a URL leads to this server: its port, and a name or an address of this machine that the server
// listens at. For a server on the loopback, all names of the loopback count, and the machine's own name. It resolves names only
// if the port is equal. Of an unknown name it returns false.
func (s *Server) IsOwn(address string) bool {
	u, err := url.Parse(address)
	own, ownErr := netip.ParseAddrPort(strings.TrimPrefix(s.url, "http://"))
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

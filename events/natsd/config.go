// Package natsd runs a NATS server inside this process, so that one program is a whole pipeline without anything to
// install. It keeps one directory, alone, and writes an acknowledged message to disk before it acknowledges it. It
// listens nowhere unless asked. It stops storing before its disk is full and goes on when there is space again: see Watch. It
// knows nothing of streams: package bus makes them, here as on any other server.
package natsd

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"
)

// SyncAlways is the Sync of a server that flushes every write to disk before it acknowledges it.
const SyncAlways = "always"

// Config says how to run the server. The zero value, with its defaults, is a throw-away server that only this process
// can talk to.
type Config struct {
	// Dir is where streams are kept. Empty is a temporary directory that Close removes.
	Dir string
	// Listen is the host:port to listen on, next to connections from within the process. Empty is nowhere; an empty
	// host is 127.0.0.1; port 0 is any free one. A host that others can reach needs credentials.
	Listen string
	// Sync is "always" (the default: nothing acknowledged is lost in a power cut; some 4,400 messages a second where
	// a flush takes 0.2 ms) or how old a write may get before it is flushed, such as "100ms" (ten times the messages;
	// a power cut loses the last moments, a killed process nothing).
	Sync string
	// MaxStore and MaxMemory bound what streams may take, in bytes, on disk (16 GiB) and in memory (256 MiB). At the
	// limit publishers get an error until something is deleted or expires.
	MaxStore, MaxMemory int64
	// User and Password, or Token, are then required of every connection. They never appear in an error.
	User, Password string
	Token          string
	// OnError is called with what the server reports as an error while it runs, such as a full disk, from the
	// server's goroutines. Nil drops it.
	OnError func(text string)
}

// WithDefaults is the config with its defaults filled in.
func (c Config) WithDefaults() Config {
	c.Sync = cmp.Or(c.Sync, SyncAlways)
	c.MaxStore = cmp.Or(c.MaxStore, 16<<30)
	c.MaxMemory = cmp.Or(c.MaxMemory, 256<<20)
	return c
}

// bcrypted is what the server takes for the hash of a password instead of the password.
var bcrypted = regexp.MustCompile(`^\$2[abxy]\$\d{2}\$`)

// Validate joins what is wrong with the config, each in a line that begins with the flag's name.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Listen != "" {
		if host, _, err := c.address(); err != nil {
			errs = append(errs, err)
		} else if !loopback(host) && c.Token == "" && c.Password == "" {
			bad("--listen: %s can be reached from other machines: set --user and --password, or --token, or listen on 127.0.0.1", c.Listen)
		}
	}
	if _, err := c.syncInterval(); err != nil {
		errs = append(errs, err)
	}
	if c.MaxStore < 0 {
		bad("--max-store: cannot be negative, got %d", c.MaxStore)
	}
	if c.MaxMemory < 0 {
		bad("--max-memory: cannot be negative, got %d", c.MaxMemory)
	}
	if (c.User == "") != (c.Password == "") {
		bad("--user, --password: one is set without the other")
	}
	if c.User != "" && c.Token != "" {
		bad("--token: is set, and so is --user: choose one")
	}
	if bcrypted.MatchString(c.Password) || bcrypted.MatchString(c.Token) {
		bad("--password, --token: looks like a bcrypt hash, which clients cannot log in with: give the plain secret")
	}
	return errors.Join(errs...)
}

// address is where to listen.
func (c Config) address() (host string, port int, err error) {
	host, service, err := net.SplitHostPort(c.Listen)
	if err == nil {
		port, err = strconv.Atoi(service)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("--listen: want host:port, such as 127.0.0.1:4222, got %q", c.Listen)
	}
	return cmp.Or(host, "127.0.0.1"), port, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// syncInterval is how old an unflushed write may get; 0 is always.
func (c Config) syncInterval() (time.Duration, error) {
	if c.Sync == SyncAlways || c.Sync == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.Sync)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("--sync: want %q or a duration such as 100ms, got %q", SyncAlways, c.Sync)
	}
	return d, nil
}

package natsd

import (
	"cmp"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"time"

	"debrief/events/config"
)

// SyncAlways is the value of Config.Sync that syncs every write to disk before the acknowledgement.
const SyncAlways = "always"

// Config configures the server. The zero value is a temporary server that only this process can reach.
type Config struct {
	// Dir is the data directory. Empty is a temporary directory that Close removes.
	Dir string
	// Listen is the host:port for connections from other processes. Empty disables them. An empty host is
	// 127.0.0.1, and port 0 selects a free port. A host that other machines can reach requires credentials.
	Listen string
	// Sync is "always" (the default) or the maximum age of an unsynced write, such as "100ms". With "always" a
	// power failure loses no acknowledged message, and the rate is about 4,400 messages per second if a sync takes
	// 0.2 ms. With "100ms" the rate is ten times higher, and a power failure loses the last writes. A killed
	// process loses nothing in both cases.
	Sync string
	// Views are the names of streams that are computed from other streams. A view that has lost a message is deleted at the start,
	// and its program computes it again.
	Views []string
	// MaxStore limits the size of streams on disk in bytes; default 16 GiB. At the limit publishers get an error until messages are deleted
	// or expire.
	MaxStore int64
	// User and Password, or Token, are the credentials for every connection. They never appear in an error.
	User, Password string
	Token          string
	// OnError is called for each error that the server reports while it runs, such as a full disk. The calls come
	// from goroutines of the server. Nil ignores the errors.
	OnError func(text string)
}

// WithDefaults returns the config with default values for zero fields.
func (c Config) WithDefaults() Config {
	c.Sync = cmp.Or(c.Sync, SyncAlways)
	c.MaxStore = cmp.Or(c.MaxStore, 16<<30)
	return c
}

// bcryptHash matches values that the server would use as the hash of a password instead of the password.
var bcryptHash = regexp.MustCompile(`^\$2[abxy]\$\d{2}\$`)

// Validate returns all invalid fields, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var e config.Errors
	if c.Listen != "" {
		if host, _, err := c.address(); err != nil {
			e.Wrap("Listen", err)
		} else if !isLoopback(host) && c.Token == "" && c.Password == "" {
			e.Add("Listen", "%s can be reached from other machines: set a user and a password, or a token, or listen on 127.0.0.1", c.Listen)
		}
	}
	_, err := c.syncInterval()
	e.Wrap("Sync", err)
	config.AtLeast(&e, "MaxStore", c.MaxStore, 1)
	if (c.User == "") != (c.Password == "") {
		e.Add("User, Password", "set both or neither")
	}
	if c.User != "" && c.Token != "" {
		e.Add("User, Token", "set only one of them")
	}
	if bcryptHash.MatchString(c.Password) || bcryptHash.MatchString(c.Token) {
		e.Add("Password, Token", "looks like a bcrypt hash, clients need the plain secret: set the plain secret")
	}
	return e.Join()
}

// address returns the host and port to listen on.
func (c Config) address() (host string, port int, err error) {
	host, service, err := net.SplitHostPort(c.Listen)
	if err == nil {
		port, err = strconv.Atoi(service)
	}
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("want host:port, such as 127.0.0.1:4222, got %q", c.Listen)
	}
	return cmp.Or(host, "127.0.0.1"), port, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// syncInterval returns the maximum age of an unsynced write; 0 means always.
func (c Config) syncInterval() (time.Duration, error) {
	if c.Sync == SyncAlways || c.Sync == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(c.Sync)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("want %q or a duration such as 100ms, got %q", SyncAlways, c.Sync)
	}
	return d, nil
}

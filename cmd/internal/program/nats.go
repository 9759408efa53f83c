package program

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/operate/rights"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/natserr"
	"debrief/events/redact"
)

// defaultURL is the default server, and the default address of 'debrief up'.
const defaultURL = "nats://127.0.0.1:4222"

// NATS contains the flags of programs that connect to a server.
type NATS struct {
	NATS     string `name:"nats" help:"URL of the NATS server; separate several by commas. Default: nats://127.0.0.1:4222." placeholder:"URL" env:"DEBRIEF_NATS,NATS_URL" instead:"data,listen" group:"Server"`
	NKey     string `name:"nkey" help:"File with the seed of a NATS user's key, created by 'debrief credentials'." type:"path" placeholder:"FILE" instead:"creds,user,password,password-file,token,token-file" rare:"" group:"Server"`
	Creds    string `help:"Credentials file of a NATS user." type:"path" placeholder:"FILE" instead:"user,password,password-file,token,token-file" rare:"" group:"Server"`
	User     string `name:"user" help:"User name." placeholder:"NAME" instead:"token,token-file" rare:"" group:"Server"`
	Password string `name:"password" help:"Password. Prefer --password-file: other users of this machine can see flags." placeholder:"TEXT" secret:"" instead:"token,token-file" rare:"" group:"Server"`
	Token    string `name:"token" help:"Token. Prefer --token-file: other users of this machine can see flags." placeholder:"TEXT" secret:"" rare:"" group:"Server"`
	CA       string `name:"ca" help:"File with the certificate authority of the server." type:"path" placeholder:"FILE" rare:"" group:"Server"`
	Replicas int    `help:"Replicas of new streams: 1, or 3 on a cluster." default:"1" rare:"" group:"Server"`

	PasswordFile string `help:"File with the password." type:"path" placeholder:"FILE" instead:"password,token,token-file" rare:"" group:"Server"`
	TokenFile    string `help:"File with the token." type:"path" placeholder:"FILE" instead:"token" rare:"" group:"Server"`

	AckWait time.Duration `help:"Redeliver after this time without progress (curators: 5s at most). Same in all programs." rare:"" group:"Server"`
}

func (n *NATS) SetDefaults() { n.AckWait = bus.Policy{}.WithDefaults().AckWait }

// Login returns the user, password and token. It reads the files that contain them.
func (n NATS) Login() (user, password, token string, err error) {
	password, err = ReadSecret("--password", n.Password, "--password-file", n.PasswordFile)
	if err == nil {
		token, err = ReadSecret("--token", n.Token, "--token-file", n.TokenFile)
	}
	return n.User, password, token, err
}

const maxSecret = 16 << 10 // limits the size of a file with a secret, in bytes

// ReadSecret returns value, which flag sets, or the text of the file with this name, which fileFlag sets.
func ReadSecret(flag, value, fileFlag, name string) (string, error) {
	switch {
	case name == "":
		return value, nil
	case value != "": // both come from the same source, so precedence does not decide; see settings.isBeaten
		return "", Exit(ExitUsage, fmt.Errorf("%s: is set, and so is %s: choose one", fileFlag, flag))
	}
	return readText(fileFlag, name, maxSecret)
}

// readText returns the text of a file without the space around it. The flag is for errors. The limit of the size is in bytes.
func readText(flag, name string, limit int) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", Exit(ExitUsage, fmt.Errorf("%s: %w", flag, err))
	}
	defer f.Close()
	text, err := trimmedText(f, limit)
	if err != nil {
		return "", Exit(ExitUsage, fmt.Errorf("%s: %s: %w", flag, name, err))
	}
	return text, nil
}

// trimmedText reads a text of at most limit bytes. It returns the text without the space around it, or an error if nothing is left.
func trimmedText(r io.Reader, limit int) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	if err != nil {
		return "", err
	}
	text := strings.TrimSpace(string(data))
	switch {
	case len(data) > limit:
		return "", fmt.Errorf("longer than %d bytes", limit)
	case text == "":
		return "", errors.New("is empty: leave the flag out, or name another file")
	case !utf8.ValidString(text):
		return "", errors.New("not UTF-8")
	}
	return text, nil
}

// loginOptions returns the connection options for the credentials and the certificate authority. The error for an unreadable
// file names the flag.
func (n NATS) loginOptions() (opts []nats.Option, err error) {
	if err := n.checkAddress(); err != nil {
		return nil, err
	}
	user, password, token, err := n.Login()
	if err != nil {
		return nil, err
	}
	var methods []string // flags of the ways to log in
	if n.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(n.NKey)
		if err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--nkey: %s: %w", n.NKey, withoutPath(err)))
		}
		methods, opts = append(methods, "--nkey"), append(opts, key)
	}
	if n.Creds != "" {
		if err := checkCredentials(n.Creds); err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--creds: %s: %w", n.Creds, withoutPath(err)))
		}
		methods, opts = append(methods, "--creds"), append(opts, nats.UserCredentials(n.Creds))
	}
	if user != "" {
		methods, opts = append(methods, "--user"), append(opts, nats.UserInfo(user, password))
	}
	if token != "" {
		methods, opts = append(methods, "--token"), append(opts, nats.Token(token))
	}
	if len(methods) > 1 {
		return nil, Exit(ExitUsage, fmt.Errorf("%s: is set, and so is %s: choose one", methods[1], methods[0]))
	}
	if n.CA != "" {
		if err := checkAuthority(n.CA); err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--ca: %w", err))
		}
		opts = append(opts, nats.RootCAs(n.CA))
	}
	return opts, nil
}

// checkAuthority returns an error for a file without a certificate.
func checkAuthority(name string) error {
	pem, err := os.ReadFile(name)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
		err = fmt.Errorf("%s: no certificate found", name)
	}
	return err
}

// checkAddress returns an error for an invalid server address. The error quotes no credentials, so it does not have the reason.
func (n NATS) checkAddress() error {
	for a := range strings.SplitSeq(n.NATS, ",") {
		u, err := url.Parse(withScheme(a))
		if err != nil || cutsCredentials(u, a) {
			return Exit(ExitUsage, fmt.Errorf("--nats: %s: invalid address, or special characters in the user, password or token: percent-encode them", redact.Address(n.NATS)))
		}
	}
	return nil
}

// cutsCredentials reports whether the credentials of an address end too early in its URL. An unescaped special character, such as a
// slash in a password, ends them, and the rest up to the @ is parsed as host or path.
func cutsCredentials(u *url.URL, address string) bool {
	if !strings.Contains(address, "@") {
		return false
	}
	return u.User == nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")
}

// withScheme adds the default scheme to an address without one.
func withScheme(address string) string {
	address = strings.TrimSpace(address)
	if strings.Contains(address, "://") {
		return address
	}
	return "nats://" + address
}

// checkCredentials returns an error for a file without a user's credentials. The client reads the file at each
// connection. It would send a file that contains only a key to the server as the JWT.
func checkCredentials(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if _, err := nkeys.ParseDecoratedNKey(text); err != nil {
		return err
	}
	if token, err := nkeys.ParseDecoratedJWT(text); err != nil || !strings.HasPrefix(token, "eyJ") { // base64 of {"
		return errors.New("no user JWT found: use --nkey for a file with only a key")
	}
	return nil
}

// withoutPath removes the path from an error, because the caller's error contains it already.
func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Dial connects to the server. Its errors have exit codes.
func (n NATS) Dial(name string, log zerolog.Logger) (*nats.Conn, error) {
	address := cmp.Or(n.NATS, defaultURL)
	shown := redact.Address(address)
	login, err := n.loginOptions()
	if err != nil {
		return nil, err
	}
	connected := term.Doing("connecting to " + shown)
	defer connected()
	nc, err := nats.Connect(address, slices.Concat(ConnOptions(name, log), login, []nats.Option{nats.Timeout(3 * time.Second)})...)
	var untrusted *tls.CertificateVerificationError
	switch {
	case err == nil:
		return nc, nil
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return nil, Exit(ExitRefused, fmt.Errorf("the server at %s refused the credentials: check --nkey, --creds, --user or --token; for a new key, reload the server's accounts.conf", shown))
	case errors.As(err, &untrusted):
		return nil, Exit(ExitRefused, fmt.Errorf("the certificate of the server at %s is not trusted (%w): check --ca", shown, untrusted.Err))
	case errors.Is(err, nats.ErrNoServers):
		return nil, Exit(ExitUnreachable, fmt.Errorf("no server answers at %s: start one with 'debrief up', or name one with --nats", shown))
	}
	return nil, Exit(ExitUnreachable, fmt.Errorf("no server answers at %s (%w): start one with 'debrief up', or name one with --nats", shown, err))
}

// ConnOptions returns the options of every connection. The client reconnects without limit. It logs permission errors at
// once, because a refused publish looks like a time-out to the caller.
func ConnOptions(name string, log zerolog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.CustomInboxPrefix(events.InboxPrefix(userOf(name))),
		nats.MaxReconnects(-1),
		nats.PingInterval(bus.PingInterval),
		nats.MaxPingsOutstanding(bus.MaxPings),
		nats.ReconnectWait(250 * time.Millisecond),
		nats.ReconnectJitter(250*time.Millisecond, 250*time.Millisecond),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			event := log.Error().Err(err)
			if sub != nil {
				event = event.Str("subject", sub.Subject)
			}
			event.Msg("nats")
		}),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn().Err(err).Msg("disconnected from the server")
			}
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Warn().Str("server", redact.Address(nc.ConnectedUrl())).Msg("reconnected to the server")
		}),
	}
}

// Check returns an error for each invalid setting and unreadable file.
func (n NATS) Check() error {
	var errs []error
	if n.AckWait != 0 && n.AckWait < time.Second {
		errs = append(errs, fmt.Errorf("--ack-wait: must be at least 1s, got %s", n.AckWait))
	}
	if n.Replicas < 1 || n.Replicas > 5 {
		errs = append(errs, fmt.Errorf("--replicas: must be 1 to 5, got %d", n.Replicas))
	}
	_, err := n.loginOptions()
	return errors.Join(Exit(ExitUsage, errors.Join(errs...)), err)
}

// userOf returns the NATS user of a program. The program debrief is the operator; the user of any other program has its name.
func userOf(program string) string {
	if program == "debrief" {
		return events.UserOperator
	}
	return program
}

// Open opens the streams that a role uses, or all streams if role is empty. It creates missing streams. It refuses a server on which the
// restore of a backup was interrupted.
func (n NATS) Open(ctx context.Context, nc *nats.Conn, role string, log zerolog.Logger) (*bus.Conn, error) {
	return n.openRestored(ctx, nc, bus.Options{Replicas: n.Replicas, Log: log, Role: role})
}

// OpenReading is Open for a command that only reads: it opens all streams, and creates nothing.
func (n NATS) OpenReading(ctx context.Context, nc *nats.Conn, log zerolog.Logger) (*bus.Conn, error) {
	return n.openRestored(ctx, nc, bus.Options{ReadOnly: true, Log: log})
}

// OpenRestoring is Open for a command that restores a backup: an interrupted restore can be repeated.
func (n NATS) OpenRestoring(ctx context.Context, nc *nats.Conn, log zerolog.Logger) (*bus.Conn, error) {
	return n.open(ctx, nc, bus.Options{Replicas: n.Replicas, Log: log})
}

// openRestored opens streams, unless a part of them is missing after an interrupted restore.
func (n NATS) openRestored(ctx context.Context, nc *nats.Conn, o bus.Options) (*bus.Conn, error) {
	conn, err := n.open(ctx, nc, o)
	if err != nil {
		return nil, err
	}
	err = bus.CheckRestored(ctx, conn.JetStream())
	switch {
	case errors.Is(err, bus.ErrRestoring):
		return nil, Exit(ExitRefused, err)
	case err != nil && !natserr.IsDenied(err): // a user without this right may have all others
		return nil, err
	}
	return conn, nil
}

// open opens streams, with errors that have exit codes.
func (n NATS) open(ctx context.Context, nc *nats.Conn, o bus.Options) (*bus.Conn, error) {
	o.Policy.AckWait, o.Tracer = n.AckWait, tracer(ctx)
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	conn, err := bus.Open(ctx, nc, o)
	switch {
	case err == nil:
		return conn, nil
	case wrongUser(err, nc):
		return nil, Exit(ExitRefused, fmt.Errorf("the credentials do not belong to the %s: use --nkey TENANT/%[1]s.nk (%w)", userOf(cmp.Or(o.Role, "debrief")), err))
	case errors.Is(err, natserr.ErrNoStreams):
		return nil, Exit(ExitRefused, fmt.Errorf("%w at %s: start 'debrief up' or the workers there, or name another server with --nats", err, redact.Address(nc.ConnectedUrl())))
	case ExitCode(err) == ExitRefused:
		return nil, err
	}
	return nil, Exit(ExitUnreachable, err)
}

// wrongUser reports whether an error denies the subscription to the connection's own inboxes. The inboxes then belong
// to another user.
func wrongUser(err error, nc *nats.Conn) bool {
	var e *bus.DeniedError
	return errors.As(err, &e) && e.Subscribe && strings.HasPrefix(e.Subject, nc.Opts.InboxPrefix)
}

// checkRights logs the missing rights of a role if the user has a key. The role works without them as far as
// possible.
func (n NATS) checkRights(ctx context.Context, conn *bus.Conn, role string, log zerolog.Logger) {
	if n.NKey == "" && n.Creds == "" {
		return
	}
	own, err := rights.ReadUserInfo(ctx, conn.NATS(), natserr.WatchOf(conn.JetStream()))
	if err != nil {
		log.Error().Err(err).Str(events.LogRole, role).Msg("cannot read the rights of this user: " + rights.Hint)
	} else if missing := own.Missing(role); len(missing) > 0 {
		log.Error().Str(events.LogRole, role).Strs("missing", missing).Msg("rights of this user are missing: " + rights.Hint)
	}
}

const retryInterval = 500 * time.Millisecond // time between two attempts of RetryUnreachable

// RetryUnreachable calls open at least once, and again for up to wait while its error has the exit code ExitUnreachable. The
// servers of a new cluster are unreachable until they have elected a leader.
func RetryUnreachable(ctx context.Context, wait time.Duration, open func() error) error {
	deadline := time.Now().Add(wait)
	for {
		err := open()
		if ExitCode(err) != ExitUnreachable || !time.Now().Before(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(retryInterval):
		}
	}
}

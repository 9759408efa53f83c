package app

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

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/rights"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/denied"
	"debrief/events/redact"
)

// DefaultURL is where a server is looked for, and where 'debrief up' listens.
const DefaultURL = "nats://127.0.0.1:4222"

// NATS are the flags of who connects to a server.
type NATS struct {
	NATS     string `name:"nats" help:"Server to connect to; several with commas. Default: nats://127.0.0.1:4222." placeholder:"URL" env:"DEBRIEF_NATS,NATS_URL" instead:"data,listen"`
	NKey     string `name:"nkey" help:"File with the seed of a NATS user's key, as 'debrief credentials' makes them." type:"path" placeholder:"FILE" instead:"creds,user,password,password-file,token,token-file"`
	Creds    string `help:"Credentials file of a NATS user." type:"path" placeholder:"FILE" instead:"user,password,password-file,token,token-file"`
	User     string `help:"User, where the server wants one." placeholder:"NAME" instead:"token,token-file"`
	Password string `help:"Password of the user. Better in a file: other users of this machine see flags." placeholder:"TEXT" secret:"" instead:"token,token-file"`
	Token    string `help:"Token, where the server wants one. Better in a file: other users of this machine see flags." placeholder:"TEXT" secret:""`
	CA       string `name:"ca" help:"Certificate authority of the server." type:"path" placeholder:"FILE"`
	Replicas int    `help:"Replicas of streams that are created: 1, or 3 on a cluster." default:"1"`

	PasswordFile string `help:"File that holds the password." type:"path" placeholder:"FILE" instead:"password,token,token-file"`
	TokenFile    string `help:"File that holds the token." type:"path" placeholder:"FILE" instead:"token"`

	AckWait time.Duration `help:"After this long without a sign of life from its worker, work goes to another one. The same for all programs of a server." default:"30s"`
}

// Login is who to be at the server, by password or token; what files hold is read.
func (n NATS) Login() (user, password, token string, err error) {
	password, err = secret("--password", n.Password, "--password-file", n.PasswordFile)
	if err == nil {
		token, err = secret("--token", n.Token, "--token-file", n.TokenFile)
	}
	return n.User, password, token, err
}

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 16 << 10

// secret is what a flag holds, or the file that another one names.
func secret(flag, value, fileFlag, name string) (string, error) {
	switch {
	case name == "":
		return value, nil
	case value != "": // who gave them does not decide it; see decide
		return "", Exit(ExitUsage, fmt.Errorf("%s: is set, and so is %s: choose one", fileFlag, flag))
	}
	f, err := os.Open(name)
	if err != nil {
		return "", Exit(ExitUsage, fmt.Errorf("%s: %w", fileFlag, err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	text := strings.TrimSpace(string(data))
	switch {
	case err != nil:
	case len(data) > maxSecret:
		err = fmt.Errorf("%s: is longer than %d bytes", name, maxSecret)
	case text == "":
		err = fmt.Errorf("%s: is empty", name)
	default:
		return text, nil
	}
	return "", Exit(ExitUsage, fmt.Errorf("%s: %w", fileFlag, err))
}

// login is how to be whom the flags name. What cannot be read is named with its flag before anybody connects.
func (n NATS) login() (opts []nats.Option, err error) {
	if err := n.address(); err != nil {
		return nil, err
	}
	user, password, token, err := n.Login()
	if err != nil {
		return nil, err
	}
	var ways []string
	if n.NKey != "" {
		key, err := nats.NkeyOptionFromSeed(n.NKey)
		if err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--nkey: %s: %w", n.NKey, pathless(err)))
		}
		ways, opts = append(ways, "--nkey"), append(opts, key)
	}
	if n.Creds != "" {
		if err := credentials(n.Creds); err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--creds: %s: %w", n.Creds, pathless(err)))
		}
		ways, opts = append(ways, "--creds"), append(opts, nats.UserCredentials(n.Creds))
	}
	if user != "" {
		ways, opts = append(ways, "--user"), append(opts, nats.UserInfo(user, password))
	}
	if token != "" {
		ways, opts = append(ways, "--token"), append(opts, nats.Token(token))
	}
	if len(ways) > 1 {
		return nil, Exit(ExitUsage, fmt.Errorf("%s: is set, and so is %s: choose one", ways[1], ways[0]))
	}
	if n.CA != "" {
		pem, err := os.ReadFile(n.CA)
		if err == nil && !x509.NewCertPool().AppendCertsFromPEM(pem) {
			err = fmt.Errorf("%s: holds no certificate", n.CA)
		}
		if err != nil {
			return nil, Exit(ExitUsage, fmt.Errorf("--ca: %w", err))
		}
		opts = append(opts, nats.RootCAs(n.CA))
	}
	return opts, nil
}

// address reports a server's address that cannot be, and quotes nothing of who logs in there: what is special in a password
// ends it early, and its rest stands where a host or a port does.
func (n NATS) address() error {
	shown := redact.Address(n.NATS)
	for a := range strings.SplitSeq(shown, ",") {
		var bad *url.Error
		if _, err := url.Parse(schemed(a[strings.LastIndexByte(a, '@')+1:])); errors.As(err, &bad) {
			return Exit(ExitUsage, fmt.Errorf("--nats: %s: %w", shown, bad.Err))
		}
	}
	for a := range strings.SplitSeq(n.NATS, ",") {
		u, err := url.Parse(schemed(a))
		if err != nil || strings.Contains(a, "@") && (u.User == nil || strings.Contains(u.Path+u.RawQuery+u.Fragment, "@")) {
			return Exit(ExitUsage, fmt.Errorf("--nats: %s: what is special in a user, password or token there has to be percent-encoded", shown))
		}
	}
	return nil
}

// schemed is an address with the scheme that it has where it has none.
func schemed(address string) string {
	if address = strings.TrimSpace(address); strings.Contains(address, "://") {
		return address
	}
	return "nats://" + address
}

// credentials reports a file that holds no user's credentials. The client reads it at each connection, and takes a file that
// holds a key alone for the part that is sent to the server.
func credentials(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if _, err := nkeys.ParseDecoratedNKey(text); err != nil {
		return err
	}
	if token, err := nkeys.ParseDecoratedJWT(text); err != nil || !strings.HasPrefix(token, "eyJ") { // {" in base64
		return errors.New("holds no user's JWT: a key alone is for --nkey")
	}
	return nil
}

// pathless is what went wrong with a file that the error around it names.
func pathless(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// Dial connects. What cannot be reached ends the program with its own exit code and one line.
func (n NATS) Dial(name string, log zerolog.Logger) (*nats.Conn, error) {
	address := cmp.Or(n.NATS, DefaultURL)
	shown := redact.Address(address)
	login, err := n.login()
	if err != nil {
		return nil, err
	}
	nc, err := nats.Connect(address, slices.Concat(Options(name, log), login, []nats.Option{nats.Timeout(3 * time.Second)})...)
	untrusted := (*tls.CertificateVerificationError)(nil)
	switch {
	case err == nil:
		return nc, nil
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return nil, Exit(ExitRefused, fmt.Errorf("the server at %s refused the credentials: check --nkey, --creds, --user or --token; a new key is known once the server has read accounts.conf", shown))
	case errors.As(err, &untrusted):
		return nil, Exit(ExitRefused, fmt.Errorf("the server at %s has a certificate that is not to be trusted (%w): check --ca", shown, untrusted.Err))
	}
	if errors.Is(err, nats.ErrNoServers) {
		return nil, Exit(ExitUnreachable, fmt.Errorf("no server answers at %s: start one with 'debrief up', or name one with --nats", shown))
	}
	return nil, Exit(ExitUnreachable, fmt.Errorf("no server answers at %s (%w): start one with 'debrief up', or name one with --nats", shown, err))
}

// Options of every connection: it comes back by itself, and what the server refuses is logged at once, because to
// the caller a refused publish looks like a time-out.
func Options(name string, log zerolog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.CustomInboxPrefix(events.InboxPrefix(user(name))),
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
			log.Warn().Str("server", redact.Address(nc.ConnectedUrl())).Msg("connected again")
		}),
	}
}

// Check reports settings that cannot be, files that cannot be read included.
func (n NATS) Check() error {
	var errs []error
	if n.AckWait != 0 && n.AckWait < time.Second {
		errs = append(errs, fmt.Errorf("--ack-wait: must be at least 1s, got %s", n.AckWait))
	}
	if n.Replicas < 0 || n.Replicas > 5 {
		errs = append(errs, fmt.Errorf("--replicas: must be 1 to 5, got %d", n.Replicas))
	}
	_, err := n.login()
	return errors.Join(Exit(ExitUsage, errors.Join(errs...)), err)
}

// user is the user whose rights a program needs: a role has its own, people's tools are the operator's.
func user(program string) string {
	if program == "debrief" {
		return events.UserOperator
	}
	return program
}

// Open opens the streams behind a connection: what a role uses, or everything.
func (n NATS) Open(ctx context.Context, nc *nats.Conn, role string, log zerolog.Logger) (*bus.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	conn, err := bus.Open(ctx, nc, bus.Options{Policy: bus.Policy{AckWait: n.AckWait}, Replicas: n.Replicas, Log: log, Role: role, Tracer: tracer(ctx)})
	switch {
	case err == nil:
		return conn, nil
	case wrongUser(err, nc):
		return nil, Exit(ExitRefused, fmt.Errorf("the credentials are not those of the %s: use its own, with --nkey TENANT/%[1]s.nk (%w)", user(cmp.Or(role, "debrief")), err))
	case ExitCode(err) == ExitRefused:
		return nil, err
	}
	return nil, Exit(ExitUnreachable, err)
}

// wrongUser reports whether an error is that the user may not subscribe to the inboxes of its connection: they are another
// user's.
func wrongUser(err error, nc *nats.Conn) bool {
	e := (*bus.DeniedError)(nil)
	return errors.As(err, &e) && e.Listen && strings.HasPrefix(e.Subject, nc.Opts.InboxPrefix)
}

// checkRights logs the rights of a role that are missing, where users have keys. The role works without them as far as it
// can.
func (n NATS) checkRights(ctx context.Context, conn *bus.Conn, role string, log zerolog.Logger) {
	if n.NKey == "" && n.Creds == "" {
		return
	}
	if missing := rights.Missing(ctx, conn.NATS(), denied.Of(conn.JetStream()), role); len(missing) > 0 {
		log.Error().Str(events.LogRole, role).Strs("missing", missing).Msg("rights of this user are missing: " + rights.Cure)
	}
}

// Package app is what the programs share: how they are configured, how they log, how they connect, how they run roles
// and how they end. The programs themselves say which flags they have and what they run. It knows no embedded server:
// worker programs do not carry one.
package app

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/console"
	"debrief/events/bus"
	"debrief/events/redact"
)

// Common are the flags of every program.
type Common struct {
	Config   string           `help:"File with settings: YAML, a key per flag. Flags and environment win." type:"path" placeholder:"FILE"`
	LogLevel string           `help:"Least level that is logged: debug, info, warn, error." default:"warn" enum:"debug,info,warn,error"`
	LogJSON  bool             `help:"Log JSON lines, also to a terminal."`
	Version  kong.VersionFlag `help:"Print the version and quit." env:"-"`

	ShowConfig bool `help:"Print every setting with its value and where that comes from, and quit: exit code 2 if one cannot be." env:"-"`

	Telemetry `group:"Traces"`
}

func (c *Common) common() *Common { return c }

// Logger logs to standard error: for people on a terminal, as JSON lines otherwise.
func (c Common) Logger() zerolog.Logger {
	level, _ := zerolog.ParseLevel(c.LogLevel)
	var out io.Writer = console.Stderr
	if !c.LogJSON && console.Stderr.IsTerminal() {
		out = zerolog.ConsoleWriter{
			Out: console.Stderr.File(), TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != "",
			FormatPrepare: func(event map[string]any) error { console.Values(event); return nil },
		}
	}
	return zerolog.New(discreet{out}).Level(level).With().Timestamp().Logger()
}

// discreet is a writer of log lines without secrets: an error may quote what somebody sent, or a server's answer.
type discreet struct{ out io.Writer }

func (d discreet) Write(line []byte) (int, error) {
	if _, err := io.WriteString(d.out, redact.Text(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Program is a command line. CLI is a pointer to a struct that embeds Common: of what is run, or, of a program with
// commands, of the flags that all of them have.
type Program struct {
	Name, Description string

	CLI      any
	Commands []Command
	Vars     kong.Vars // what stands for itself in help texts
}

// Command is one of a program's: a pointer to a struct of flags with a method Run.
type Command struct {
	Name, Help string
	Run        any
}

// Main parses the command line, runs what is asked for and returns the exit code. Settings come from flags, then the
// environment (DEBRIEF_ and the flag in capitals), then the file of --config, then defaults. A first interrupt ends the
// context; a second one ends the program.
func (m Program) Main(args []string) int {
	zerolog.ErrorMarshalFunc = func(err error) any { return bus.Loggable(err) } // whoever logs it
	name := m.Name
	p, err := m.parse(args)
	if err != nil {
		console.Fprintf(console.Stderr, "%s: %s\n", name, firstLine(err))
		if usage := (*kong.ParseError)(nil); errors.As(err, &usage) && usage.Context != nil {
			command, _, _ := strings.Cut(name+" "+usage.Context.Command(), " <") // without its arguments
			console.Fprintf(console.Stderr, "See '%s --help'.\n", strings.TrimSpace(command))
		}
		return ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal has its usual effect
	if err := p.do(ctx, name); err != nil {
		console.Fprintf(console.Stderr, "%s: %s\n", name, firstLine(plain(err)))
		return ExitCode(err)
	}
	return ExitDone
}

// parsed is a command line that was understood.
type parsed struct {
	cli  any
	run  *kong.Context
	file *file

	dropped []*kong.Flag // what was given and does not count; see decide
}

// parse understands a command line, with the environment and the file that it names. What nobody knows is an error.
func (m Program) parse(args []string) (*parsed, error) {
	f, err := loadFile(configFile(args))
	if err != nil {
		return nil, err
	}
	parser := m.parser(m.wanted(f, args), kong.Resolvers(f))
	dropEmpty(parser.Model)
	if err := m.checkEnvironment(parser.Model, os.Environ()); err != nil {
		return nil, err
	}
	run, err := parser.Parse(args)
	if usage := (*kong.ParseError)(nil); errors.As(err, &usage) && usage.Context != nil {
		return nil, (&parsed{cli: m.CLI, run: usage.Context, file: f}).blame(err)
	}
	if err != nil {
		return nil, err
	}
	p := &parsed{cli: m.CLI, run: run, file: f}
	return p, p.decide()
}

// wanted are the commands that a command line may be of. The flags of dozens take longer to understand than most commands
// to run, so only those that are named are: all of them where none is, for help, and for the keys of a file, which may be
// any's.
func (m Program) wanted(f *file, args []string) []Command {
	var named []Command
	for _, c := range m.Commands {
		if slices.Contains(args, c.Name) {
			named = append(named, c)
		}
	}
	if len(named) == 0 || f.name != "" {
		return m.Commands
	}
	return named
}

func (m Program) parser(commands []Command, options ...kong.Option) *kong.Kong {
	vars := kong.Vars{"version": Version()}
	maps.Copy(vars, m.Vars)
	options = append(options, kong.Name(m.Name), kong.Description(m.Description), kong.Writers(console.Stdout, console.Stderr), kong.UsageOnError(), kong.ShortUsageOnError(),
		kong.DefaultEnvars(strings.TrimSuffix(variablePrefix, "_")), vars, kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}))
	for _, c := range commands {
		options = append(options, kong.DynamicCommand(c.Name, c.Help, "", c.Run))
	}
	parser, err := kong.New(m.CLI, options...)
	if err != nil {
		panic(err) // a mistake in our own struct tags; the tests parse every program's
	}
	return parser
}

// chosen is the command that was chosen: that of a program without commands is the program itself.
func (p *parsed) chosen() any {
	if n := p.run.Selected(); n != nil {
		return n.Target.Addr().Interface()
	}
	return p.cli
}

// check reports settings that cannot be, before anything is touched.
func (p *parsed) check() error {
	if c, ok := p.chosen().(checker); ok {
		return p.blame(c.Check())
	}
	return nil
}

// do does what the command line asks for.
func (p *parsed) do(ctx context.Context, name string) error {
	common, ok := p.cli.(interface{ common() *Common })
	if ok && common.common().ShowConfig {
		return p.show(false)
	}
	if c, ok := p.chosen().(prober); ok && c.probes() {
		return c.ask(ctx)
	}
	if err := p.check(); err != nil {
		return err
	}
	if ok {
		p.run.Bind(common.common())
		traced, flush, err := common.common().trace(ctx, name, common.common().Logger())
		if err != nil {
			return err
		}
		defer flush()
		ctx = traced
	}
	p.run.BindTo(ctx, (*context.Context)(nil))
	return p.run.Run()
}

var errFull = errors.New("the server's store is full: give it more room with 'debrief up --max-store SIZE', or wait until old events expire, then try again")

var errClosed = errors.New("the server takes nothing new: its disk is nearly full, or the account is at its limit; free space there ('debrief doctor' says which), then try again")

// plain is an error as a person needs it: of a full store what to do about it, and not the server's own words.
func plain(err error) error {
	if full := (*bus.FullError)(nil); errors.As(err, &full) {
		var api *jetstream.APIError
		switch {
		case !errors.As(err, &api):
			return full
		case api.ErrorCode == bus.AccountFull:
			return errClosed
		}
		return errFull
	}
	return err
}

// firstLine is an error in one line.
func firstLine(err error) string { return redact.Text(strings.ReplaceAll(err.Error(), "\n", "; ")) }

// Version is the module's version, or the revision it was built from.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	version := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && (version == "" || version == "(devel)") {
			version = s.Value
		}
	}
	return version
}

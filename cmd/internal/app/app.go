// Package app is what the programs share: how they are configured, how they log, how they connect, how they run roles
// and how they end. The programs themselves say which flags they have and what they run. It knows no embedded server:
// worker programs do not carry one.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"
	"golang.org/x/term"

	"debrief/events/bus"
)

// Common are the flags of every program.
type Common struct {
	Config   string           `help:"File with settings: YAML, a key per flag. Flags and environment win." type:"path" placeholder:"FILE"`
	LogLevel string           `help:"Least level that is logged: debug, info, warn, error." default:"warn" enum:"debug,info,warn,error"`
	LogJSON  bool             `help:"Log JSON lines, also to a terminal."`
	Version  kong.VersionFlag `help:"Print the version and quit." env:"-"`
}

func (c *Common) common() *Common { return c }

// Logger logs to standard error: for people on a terminal, as JSON lines otherwise.
func (c Common) Logger() zerolog.Logger {
	level, _ := zerolog.ParseLevel(c.LogLevel)
	var out io.Writer = os.Stderr
	if !c.LogJSON && term.IsTerminal(int(os.Stderr.Fd())) {
		out = zerolog.ConsoleWriter{Out: os.Stderr, TimeFormat: time.TimeOnly, NoColor: os.Getenv("NO_COLOR") != ""}
	}
	return zerolog.New(out).Level(level).With().Timestamp().Logger()
}

// Main parses the command line into cli, a pointer to a struct that embeds Common, runs the chosen command and returns
// the exit code. Settings come from flags, then the environment (DEBRIEF_ and the flag in capitals), then the file of
// --config, then defaults. A first interrupt ends the context; a second one ends the program.
func Main(name, description string, cli any, vars kong.Vars, args []string) int {
	settings, err := loadFile(configFile(args))
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, firstLine(err))
		return ExitUsage
	}
	vars["version"] = Version()
	parser, err := kong.New(cli,
		kong.Name(name), kong.Description(description), kong.UsageOnError(), kong.ShortUsageOnError(),
		kong.DefaultEnvars("DEBRIEF"), vars, kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 110}),
		kong.Resolvers(settings),
	)
	if err != nil {
		panic(err) // a mistake in our own struct tags; the tests parse every program's
	}
	run, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, firstLine(err))
		if usage := (*kong.ParseError)(nil); errors.As(err, &usage) && usage.Context != nil {
			command, _, _ := strings.Cut(name+" "+usage.Context.Command(), " <") // without its arguments
			fmt.Fprintf(os.Stderr, "See '%s --help'.\n", strings.TrimSpace(command))
		}
		return ExitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal has its usual effect
	run.BindTo(ctx, (*context.Context)(nil))
	if c, ok := cli.(interface{ common() *Common }); ok {
		run.Bind(c.common())
	}
	if err := run.Run(); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, firstLine(plain(err)))
		return ExitCode(err)
	}
	return ExitDone
}

var errFull = errors.New("the server's store is full: give it more room with 'debrief up --max-store SIZE', or wait until old events expire, then try again")

// plain is an error as a person needs it: of a full store what to do about it, and not the server's own words.
func plain(err error) error {
	if full := (*bus.FullError)(nil); errors.As(err, &full) {
		return errFull
	}
	return err
}

// firstLine is an error in one line.
func firstLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

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

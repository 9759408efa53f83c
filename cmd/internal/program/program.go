package program

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"debrief/cmd/internal/program/term"
	"debrief/events/bus"
	"debrief/events/redact"
)

// Common contains the flags of every program.
type Common struct {
	Config   string           `help:"File with settings: YAML, one key for each flag. Flags and environment override it." type:"path" placeholder:"FILE"`
	LogLevel string           `help:"Lowest level to log: debug, info, warn or error." default:"warn" enum:"debug,info,warn,error" rare:""`
	LogJSON  bool             `help:"Log JSON lines even on a terminal." rare:""`
	Redact   string           `help:"What is replaced before a text is stored: secrets, or personal for e-mail addresses, phone, card and account numbers too. Set it for every program." enum:"secrets,personal" default:"secrets" rare:""`
	Version  kong.VersionFlag `help:"Print the version and quit." env:"-" rare:""`

	ShowConfig bool     `help:"Print every setting with its value and source, and quit. Exit code 2 if one is invalid." env:"-"`
	HelpAll    fullHelp `help:"Show this help with all flags." env:"-"`

	Telemetry `group:"Traces"`
}

func (c *Common) common() *Common { return c }

// Logger logs to standard error: as text on a terminal, as JSON lines otherwise.
func (c Common) Logger() zerolog.Logger {
	level, _ := zerolog.ParseLevel(c.LogLevel)
	var out io.Writer = term.Stderr
	if !c.LogJSON && term.Stderr.IsTerminal() {
		out = zerolog.ConsoleWriter{Out: term.Stderr, TimeFormat: time.TimeOnly, NoColor: true} // Stderr cleans control sequences
	}
	return zerolog.New(redactingWriter{out}).Level(level).With().Timestamp().Logger()
}

// redactingWriter removes secrets from log lines. An error may quote a client's message or a server's reply.
type redactingWriter struct{ out io.Writer }

func (d redactingWriter) Write(line []byte) (int, error) {
	if _, err := io.WriteString(d.out, redact.Text(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Program is a program with flags, and perhaps commands. CLI is a pointer to a struct of flags that embeds Common. In a program
// with commands it has the flags common to all commands.
type Program struct {
	Name, Description string

	CLI      interface{ common() *Common }
	Commands []Command
	Vars     kong.Vars // variables of the help texts
}

// Command is a command of a program. Run is a pointer to a struct of flags with a method Run. Group is a heading of the
// help; commands without one are under "Commands:".
type Command struct {
	Group, Name, Help string
	Run               any
}

// gcPercent is the default of GOGC. At 200 a worker takes 7 % less CPU for a sample than at 100, Go's default. The memory limit still holds.
const gcPercent = 200

// Main parses the command line, runs the command and returns the exit code. Settings come from flags, then the
// environment (DEBRIEF_ and the flag in capitals), then the file of --config, then defaults. A first interrupt
// cancels the context; a second one ends the program.
func (p Program) Main(args []string) int {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	zerolog.ErrorMarshalFunc = func(err error) any { return bus.Loggable(err) } // for every logger
	if len(args) == 0 && len(p.Commands) > 0 {
		args = []string{"--help"}
	}
	line, err := p.parse(args)
	if err != nil {
		isJSON := slices.Contains(args, "--json")
		p.printError(firstLine(err), ExitUsage, isJSON)
		var invalid *kong.ParseError
		if errors.As(err, &invalid) && invalid.Context != nil && !isJSON {
			command := p.Name
			if n := invalid.Context.Selected(); n != nil {
				command = n.FullPath()
			}
			term.Fprintf(term.Stderr, "See '%s --help'.\n", command)
		}
		return ExitUsage
	}
	ctx, stop := untilSignal()
	defer stop()
	if err := line.run(ctx); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			err = context.Cause(ctx) // the signal says more than "context canceled"
		}
		p.printError(firstLine(userError(err)), ExitCode(err), line.isJSON())
		return ExitCode(err)
	}
	return exitDone
}

// printError prints an error to standard error: a line of text, or with --json a line with a JSON document.
func (p Program) printError(text string, code int, isJSON bool) {
	if !isJSON {
		term.Fprintf(term.Stderr, "%s: %s\n", p.Name, text)
		return
	}
	document, err := json.Marshal(struct {
		Error string `json:"error"`
		Code  int    `json:"exit_code"`
	}{term.Line(text), code})
	if err != nil { // a string and a number encode
		panic(err)
	}
	term.Fprintf(term.Stderr, "%s\n", document)
}

// isJSON reports whether the command prints JSON.
func (l *commandLine) isJSON() bool {
	for _, s := range l.settings.effective(l.kong) {
		if s.Name == "json" {
			return s.Value == "true"
		}
	}
	return false
}

// errTerminated is the cause of a context that SIGTERM has ended.
var errTerminated = errors.New("terminated")

// untilSignal returns a context that ends with the first SIGINT or SIGTERM. The second signal ends the process. After SIGINT
// workers do not wait for the messages in progress: the cause is bus.ErrInterrupted.
func untilSignal() (ctx context.Context, stop func()) {
	ctx, end := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			signal.Stop(signals)
			if s == os.Interrupt {
				end(bus.ErrInterrupted)
			} else {
				end(errTerminated)
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(signals); end(nil) }
}

// commandLine is a parsed command line.
type commandLine struct {
	program  Program
	kong     *kong.Context // the selected command and its flags
	settings *settings
}

// parse parses a command line with the environment and the settings file. An unknown flag, environment variable or key of the
// file is an error.
func (p Program) parse(args []string) (*commandLine, error) {
	s, err := newSettings(args)
	if err != nil {
		return nil, err
	}
	if err := p.checkEnvironment(os.Environ()); err != nil {
		return nil, err
	}
	parser := p.parser(p.neededCommands(s, args), kong.Resolvers(s))
	// An empty Tag.Envs keeps kong from reading the environment, because kong would set two flags of which only one may be set. The type
	// settings reads it instead, by flag.Envs, and sets the one from the source of higher precedence.
	eachFlag(parser.Model.Node, func(flag *kong.Flag) { flag.Tag.Envs = nil })
	run, err := parser.Parse(args)
	if err == nil {
		err = errors.Join(checkRivals(run), checkZeros(run), checkEmpty(run))
	}
	return &commandLine{program: p, kong: run, settings: s}, err
}

// neededCommands returns the commands that the command line may name: to build the flags of all commands takes longer than most
// commands run. The help of the program names no command, so it gets all of them. So does a settings file, whose keys may belong to
// any command.
func (p Program) neededCommands(s *settings, args []string) []Command {
	var named []Command
	for _, c := range p.Commands {
		if slices.Contains(args, c.Name) {
			named = append(named, c)
		}
	}
	if len(named) == 0 || s.file != "" {
		return p.Commands
	}
	return named
}

// parser returns a parser for the flags of the program and of some of its commands.
func (p Program) parser(commands []Command, options ...kong.Option) *kong.Kong {
	vars := kong.Vars{"version": CurrentBuild().String()}
	maps.Copy(vars, p.Vars)
	help := new(helpPrinter)
	options = append([]kong.Option{
		kong.Name(p.Name), kong.Description(p.Description), kong.DefaultEnvars(strings.TrimSuffix(variablePrefix, "_")), vars,
		kong.PostBuild(func(k *kong.Kong) error { setDefaults(k.Model.Node); addExamples(k.Model.Node); return nil }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}), kong.Help(help.print), kong.Bind(help),
	}, options...)
	for _, c := range commands {
		options = append(options, kong.DynamicCommand(c.Name, c.Help, c.Group, c.Run))
	}
	parser, err := kong.New(p.CLI, options...)
	if err != nil {
		panic(err) // invalid struct tags; the tests parse the flags of every program
	}
	return parser
}

// Model returns the commands and flags of the program.
func (p Program) Model() *kong.Application { return p.parser(p.Commands).Model }

// ShowHelp prints the help of the command with these words, or of the program for no words, and ends the process. It returns only
// for an unknown command, with an error.
func (p Program) ShowHelp(words []string) error {
	if _, err := p.parse(append(words, "--help")); err != nil {
		return Exit(ExitUsage, fmt.Errorf("%w: '%s help' lists the commands", err, p.Name))
	}
	return nil
}

// showSettings prints the settings, with --json as JSON, and returns the errors of invalid ones.
func (l *commandLine) showSettings() (err error) {
	all := l.settings.effective(l.kong)
	if l.isJSON() {
		err = json.NewEncoder(term.Stdout).Encode(all)
	} else {
		w := term.NewTable(term.Stdout)
		term.Fprintf(w, "setting\tvalue\torigin\n")
		for _, s := range all {
			term.Fprintf(w, "%s\t%s\t%s\n", s.Name, strings.Join(strings.Fields(s.Value), " "), s.Origin)
		}
		err = w.Flush()
	}
	return errors.Join(err, l.check())
}

// command returns the selected command, or the program itself if it has no commands.
func (l *commandLine) command() any {
	if n := l.kong.Selected(); n != nil {
		return n.Target.Addr().Interface()
	}
	return l.program.CLI
}

// checker is a command that can validate its settings without side effects. Check also reads the files that settings name. Validate, a method
// of kong, only checks values while the command line is parsed.
type checker interface{ Check() error }

// check returns the errors of invalid settings before the command does anything.
func (l *commandLine) check() error {
	if c, ok := l.command().(checker); ok {
		return c.Check()
	}
	return nil
}

// run runs the command, or shows its settings (--show-config), or checks another process (--probe).
func (l *commandLine) run(ctx context.Context) error {
	common := l.program.CLI.common()
	if common.ShowConfig {
		return l.showSettings()
	}
	if c, ok := l.command().(prober); ok && c.probes() {
		return c.probe(ctx)
	}
	if err := l.check(); err != nil {
		return err
	}
	redact.Personal(common.Redact == "personal")
	ctx, flush, err := common.trace(ctx, l.program.Name, common.Logger())
	if err != nil {
		return err
	}
	defer flush()
	l.kong.Bind(common, l.settings.effective(l.kong)) // arguments of Run
	l.kong.BindTo(ctx, (*context.Context)(nil))
	return l.kong.Run()
}

// The errors for a full store that userError returns.
var (
	errStoreFull   = errors.New("the server's store is full: enlarge it with 'debrief up --max-store SIZE', or wait until old events expire, then try again")
	errAccountFull = errors.New("the server stores nothing new: its disk is nearly full, or the account is at its limit ('debrief doctor' shows which): free space, then try again")
)

// userError replaces the server's error for a full store by an error that says how to fix it.
func userError(err error) error {
	var full *bus.FullError
	if !errors.As(err, &full) {
		return err
	}
	var api *jetstream.APIError
	switch {
	case !errors.As(err, &api), api.ErrorCode == bus.StreamSealed:
		return full // its text has the reason
	case api.ErrorCode == bus.AccountFull:
		return errAccountFull
	}
	return errStoreFull
}

// firstLine formats an error as one line without secrets.
func firstLine(err error) string { return redact.Text(strings.ReplaceAll(err.Error(), "\n", "; ")) }

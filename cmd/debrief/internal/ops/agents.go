package ops

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"debrief/cmd/internal/agents"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// Connect connects a coding agent with a playbook.
type Connect struct {
	Agent      string `arg:"" optional:"" help:"The agent: claude-code, codex, gemini or cursor." placeholder:"AGENT"`
	Book       string `help:"Playbook of this repository. Default: the name of its directory." placeholder:"NAME"`
	URL        string `name:"url" help:"Address of the gateway. Default: $DEBRIEF_URL, else http://127.0.0.1:4280." placeholder:"URL" env:"-"`
	TokenFile  string `help:"File with the token of the gateway. Default: $DEBRIEF_API_TOKEN." type:"path" placeholder:"FILE"`
	Project    bool   `help:"Write the hooks into the repository, not into your own settings of the agent."`
	AdviceOnly bool   `help:"Only show advice; do not hand over what the agent did."`
	NoMCP      bool   `name:"no-mcp" help:"Do not enter the MCP server of the playbook into your settings of the agent."`
	Yes        bool   `help:"Do not ask for confirmation."`
	DryRun     bool   `help:"Only show the changes."`
	Uninstall  bool   `help:"Take the connection back: files are as before, byte for byte."`
	Skill      bool   `help:"Print a skill that tells a coding agent how to integrate Debrief into a program."`
	JSON       bool   `help:"Print one JSON document."`
}

func (*Connect) Help() string {
	return `Connects a coding agent with a playbook, for the git repository in this directory, on this machine. Each message to the agent
then gets the advice that applies, and what the agent did is reported as a run: its tools and texts from its transcript, and the
outcome from its last tests, from commits, and from what you say: /debrief good, or /debrief bad WORDS. Over MCP the agent can look up
rules of the playbook and propose corrections, which wait for a person.

The command edits the agent's settings and shows the difference. All else in them stays. The playbook, the address and the token are
in your own settings for Debrief, which only you can read. A clone of the repository, or a file in it, cannot connect itself.

Examples:

  debrief connect claude-code --book shop
  debrief connect codex --dry-run
  debrief connect gemini --url https://debrief.example --token-file key
  debrief connect claude-code --uninstall
  debrief connect --skill`
}

// connectOutput is the result with --json.
type connectOutput struct {
	Agent       string   `json:"agent"`
	Book        string   `json:"book,omitempty"`
	URL         string   `json:"url,omitempty"`
	Transcripts bool     `json:"transcripts"`
	Files       []string `json:"files"` // of the agent that were changed
	Changed     bool     `json:"changed"`
	DryRun      bool     `json:"dry_run,omitempty"`
}

// options returns the options of the flags and of the environment.
func (c *Connect) options() (o agents.Options, err error) {
	o = agents.Options{Agent: c.Agent, Book: c.Book, Project: c.Project, AdviceOnly: c.AdviceOnly, NoMCP: c.NoMCP}
	o.URL = cmp.Or(c.URL, os.Getenv("DEBRIEF_URL"))
	o.Token = os.Getenv("DEBRIEF_API_TOKEN")
	if c.TokenFile != "" {
		data, err := os.ReadFile(c.TokenFile)
		if err != nil {
			return o, fmt.Errorf("--token-file: %w", err)
		}
		o.Token = strings.TrimSpace(string(data))
	}
	if o.Dir, err = os.Getwd(); err != nil {
		return o, err
	}
	if o.Home, err = os.UserHomeDir(); err != nil {
		return o, err
	}
	if o.Settings, err = agents.SettingsFile(); err != nil {
		return o, err
	}
	if o.State, err = agents.StateDir(); err != nil {
		return o, err
	}
	o.Executable, err = os.Executable()
	return o, err
}

func (c *Connect) Run() error {
	if c.Skill {
		_, err := term.Printf("%s\n", term.Block(strings.TrimSuffix(agents.Skill, "\n")))
		return err
	}
	if c.Agent == "" {
		return program.Exit(program.ExitUsage, fmt.Errorf("AGENT: required: %s", strings.Join(agents.Names, ", ")))
	}
	o, err := c.options()
	if err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	plan := agents.Connect
	if c.Uninstall {
		plan = agents.Disconnect
	}
	p, err := plan(o)
	if err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	asks := !c.Yes && !c.Uninstall && c.Book == "" // --book is a confirmation: else the name of the directory decides
	switch {
	case !p.Changed():
	case !c.JSON:
		c.describe(term.Stdout, p)
	case asks && !c.DryRun:
		c.describe(term.Stderr, p) // standard output is for the JSON
	}
	if !c.DryRun && p.Changed() {
		if asks {
			if err := cli.Confirm("Connect?"); err != nil {
				return err
			}
		}
		if err := p.Apply(); err != nil {
			return err
		}
	}
	return c.print(p)
}

// describe prints the changes that the plan will make.
func (c *Connect) describe(w io.Writer, p *agents.Plan) {
	term.Fprintf(w, "%s\n", term.Block(strings.TrimSuffix(p.Diff(), "\n")))
	if c.Uninstall {
		return
	}
	r := p.Repository
	work := "what the agent did is reported as runs"
	if !r.Transcripts {
		work = "nothing is reported"
	}
	term.Fprintf(w, "%s in %s: advice of playbook %q at %s; %s.\n%s keeps this, and the token if there is one.\n",
		p.Title(), filepath.Dir(r.GitDir), r.Book, r.URL, work, p.SettingsFile())
}

func (c *Connect) print(p *agents.Plan) error {
	out := connectOutput{Agent: c.Agent, Files: []string{}, Changed: p.Changed(), DryRun: c.DryRun}
	for _, f := range p.Files {
		out.Files = append(out.Files, f.Name)
	}
	if r := p.Repository; r != nil {
		out.Book, out.URL, out.Transcripts = r.Book, r.URL, r.Transcripts
	}
	if c.JSON {
		return cli.WriteJSON(term.Stdout, out)
	}
	state := "connected"
	if c.Uninstall {
		state = "disconnected"
	}
	switch {
	case !p.Changed():
		term.Printf("%s is %s; nothing to change.\n", p.Title(), state)
	case c.DryRun:
		term.Printf("Nothing was changed.\n")
	default:
		term.Printf("%s is %s.\n", p.Title(), state)
	}
	if note := p.Note(); note != "" && !c.Uninstall {
		term.Printf("%s.\n", note)
	}
	return nil
}

// Hook handles one event of a coding agent. The program calls agents.HookMain before it parses flags; this type has the help.
type Hook struct {
	Agent string `arg:"" help:"The agent: claude-code, codex, gemini or cursor." placeholder:"AGENT"`
}

func (*Hook) Help() string {
	return `Coding agents call this command: 'debrief connect' writes it into their settings. It reads one event from standard input. For a
message of the user it adds advice of the playbook of the repository, each bullet once in a session. When the agent stops, another
process reports the run. The command ends within 300 ms, with the exit code 0 in any case. Errors are in
~/.local/state/debrief/agents/hook.log.

Examples:

  debrief hook claude-code`
}

func (h *Hook) Run() error {
	agents.HookMain([]string{h.Agent})
	return nil
}

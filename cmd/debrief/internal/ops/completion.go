package ops

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
)

// Completion prints a script that completes commands and flags in a shell.
type Completion struct {
	Program func() program.Program `kong:"-"` // the program with the commands

	Shell string   `arg:"" enum:"bash,zsh,fish" help:"Shell: bash, zsh or fish."`
	Words []string `arg:"" optional:"" passthrough:"" help:"Words of a command line: print the completions of the last one. The scripts use this."`
}

func (*Completion) Help() string {
	return `Print a script for a shell. It completes commands, flags and the values of flags with a fixed list. Load it in the start-up file
of the shell.

Examples:

  debrief completion bash >> ~/.bashrc
  debrief completion zsh >> ~/.zshrc
  debrief completion fish > ~/.config/fish/completions/debrief.fish`
}

// completionScripts has the script of each shell. A script calls this program with the words up to the cursor. The script of
// zsh also works as a file in a directory of fpath: at the first completion zsh then runs the file as the body of the function _debrief.
var completionScripts = map[string]string{
	"bash": `_debrief() {
    local IFS=$'\n'
    COMPREPLY=($(debrief completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _debrief debrief
`,
	"zsh": `#compdef debrief
_debrief() {
    local -a found
    found=("${(@f)$(debrief completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n "$found" ]]; then compadd -a found; else _files; fi
}
if [[ "$funcstack[1]" = _debrief ]]; then _debrief "$@"; else compdef _debrief debrief; fi
`,
	"fish": `function __debrief
    debrief completion fish -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c debrief -n 'count (__debrief) >/dev/null' -f -a '(__debrief)'
`,
}

func (c *Completion) Run() error {
	if len(c.Words) == 0 {
		_, err := term.Fprintf(term.Stdout, "%s", term.Block(completionScripts[c.Shell]))
		return err
	}
	words := c.Words
	if words[0] == "--" {
		words = words[1:]
	}
	for _, w := range complete(c.Program().Model().Node, words) {
		if _, err := term.Fprintln(term.Stdout, term.Block(w)); err != nil {
			return err
		}
	}
	return nil
}

// complete returns the words that can replace the last word, sorted: commands, flags after a dash, or the values of a flag. The other
// words select the command below node.
func complete(node *kong.Node, words []string) (all []string) {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	var waiting *kong.Flag // flag whose value is the next word, or nil
	for _, word := range words[:len(words)-1] {
		switch {
		case waiting != nil:
			waiting = nil // the word is its value
		case strings.HasPrefix(word, "-"):
			if f := flagNamed(node, word); f != nil && !f.IsBool() {
				waiting = f
			}
		default:
			if i := slices.IndexFunc(node.Children, func(c *kong.Node) bool { return c.Name == word }); i >= 0 {
				node = node.Children[i]
			}
		}
	}
	switch {
	case waiting != nil:
		all = waiting.EnumSlice()
	case strings.HasPrefix(last, "-"):
		for _, f := range flagsOf(node) {
			if !f.Hidden {
				all = append(all, "--"+f.Name)
			}
		}
	case len(node.Children) > 0:
		for _, c := range node.Children {
			all = append(all, c.Name)
		}
	case len(node.Positional) > 0:
		all = node.Positional[0].EnumSlice()
	}
	all = slices.DeleteFunc(all, func(w string) bool { return w == "" || !strings.HasPrefix(w, last) })
	slices.Sort(all)
	return all
}

// flagsOf returns the flags of a command, of its parents, and of the command that a group runs by default.
func flagsOf(node *kong.Node) (all []*kong.Flag) {
	if node.DefaultCmd != nil {
		all = append(all, node.DefaultCmd.Flags...)
	}
	for ; node != nil; node = node.Parent {
		all = append(all, node.Flags...)
	}
	return all
}

// flagNamed returns the flag of a word such as --book or -n. It returns nil for an unknown flag and for a flag with its value in the
// same word, such as --book=support.
func flagNamed(node *kong.Node, word string) *kong.Flag {
	for _, f := range flagsOf(node) {
		if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
			return f
		}
	}
	return nil
}

package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
)

// Confirm asks the user for confirmation. It returns an error if the answer is not yes, or without a terminal.
func Confirm(question string) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return app.Exit(app.ExitRefused, errors.New("not a terminal: pass --yes to confirm"))
	}
	console.Fprintf(console.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return app.Exit(app.ExitRefused, errors.New("not confirmed: nothing was changed"))
	}
	return nil
}

// WriteJSON writes v as one line of JSON.
func WriteJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// ProgressLine returns a function that overwrites a line of a terminal with the number of finished items.
func ProgressLine(out io.Writer, label, items string, total int) func(done int) {
	return func(done int) {
		if done == total {
			console.Control(out, console.ClearLine)
			return
		}
		console.Control(out, console.Return)
		console.Fprintf(out, "%-9s %s %d of %d", label, items, done, total)
	}
}

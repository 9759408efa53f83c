package cli

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
)

// Confirm asks the user for confirmation. It returns an error if the answer is not yes, or without a terminal.
func Confirm(question string) error {
	if !term.InputIsTerminal() {
		return program.Exit(program.ExitRefused, errors.New("not a terminal: pass --yes to confirm"))
	}
	term.Fprintf(term.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return program.Exit(program.ExitRefused, errors.New("not confirmed: nothing was changed"))
	}
	return nil
}

// WriteJSON writes v as one line of JSON.
func WriteJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// PrintList prints a list: each item as a line of JSON, or a table with these columns and the line of each item. Without items it prints
// the text empty, and nothing as JSON.
func PrintList[T any](asJSON bool, all []T, empty, columns string, line func(io.Writer, T)) error {
	switch {
	case asJSON:
		return WriteLines(term.Stdout, all)
	case len(all) == 0:
		_, err := term.Println(empty)
		return err
	}
	return term.PrintTable(term.Stdout, columns, all, line)
}

// WriteLines writes each item as a line of JSON.
func WriteLines[T any](out io.Writer, all []T) error {
	for _, item := range all {
		if err := WriteJSON(out, item); err != nil {
			return err
		}
	}
	return nil
}

const maxFileSize = 16 << 20 // maximum size of a file, in bytes

// ReadFile reads a file of at most maxFileSize, or standard input for '-'.
func ReadFile(name string) ([]byte, error) {
	in := io.Reader(os.Stdin)
	if name != "-" {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, program.Exit(program.ExitUsage, fmt.Errorf("%s: no such file", name))
		}
		if err != nil {
			return nil, program.Exit(program.ExitUsage, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxFileSize+1))
	if err == nil && len(data) > maxFileSize {
		err = fmt.Errorf("larger than %d MiB", maxFileSize>>20)
	}
	if err != nil {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("%s: %w", name, err))
	}
	return data, nil
}

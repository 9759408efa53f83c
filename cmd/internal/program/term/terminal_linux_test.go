package term

import (
	"bufio"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns a writer to a terminal with a number of columns, and a function that returns its next lines. A single read may
// return a part of them.
func openTerminal(t *testing.T, columns uint16) (*Writer, func(lines int) string) {
	t.Helper()
	control, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { control.Close() })
	fd := int(control.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns})
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { terminal.Close() })
	output := bufio.NewReader(control)
	return &Writer{&terminal}, func(lines int) (text string) {
		for range lines {
			line, err := output.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			text += line
		}
		return text
	}
}

func TestTerminalHasWidth(t *testing.T) {
	t.Setenv("COLUMNS", "")
	out, read := openTerminal(t, 47)
	if got := Width(out); got != 47 {
		t.Errorf("got width %d, want 47", got)
	}
	w := NewTable(out)
	_, _ = Fprintf(w, "role\thealth\n%s\tred\n", "\x1b[7mx")
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if got, want := read(2), "role        health\r\n\\u001b[7mx  red\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	t.Setenv("COLUMNS", "60")
	if got := Width(out); got != 60 {
		t.Errorf("COLUMNS: got width %d, want 60", got)
	}
}

// TestPipeHasNoWidth is the control.
func TestPipeHasNoWidth(t *testing.T) {
	t.Setenv("COLUMNS", "")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if got := Width(&Writer{&w}); got != 0 {
		t.Errorf("got width %d", got)
	}
}

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

func TestTerminalHasWidthAndColors(t *testing.T) {
	t.Setenv("COLUMNS", "")
	t.Setenv("NO_COLOR", "")
	t.Setenv("TERM", "xterm")
	out, read := openTerminal(t, 47)
	if got := Width(out); got != 47 {
		t.Errorf("got width %d, want 47", got)
	}
	show := func() string {
		w := NewTable(out)
		w.Colors = map[string]Color{"red": Red}
		_, _ = Fprintf(w, "role\thealth\n%s\tred\n", "\x1b[7mx")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return read(2)
	}
	if got, want := show(), "\x1b[01mrole\x1b[00m        \x1b[01mhealth\x1b[00m\r\n\x1b[00m\\u001b[7mx\x1b[00m  \x1b[31mred\x1b[00m\r\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, value := range map[string]string{"NO_COLOR": "1", "TERM": "dumb"} {
		was := os.Getenv(name)
		t.Setenv(name, value)
		if got, want := show(), "role        health\r\n\\u001b[7mx  red\r\n"; got != want {
			t.Errorf("%s=%s: got %q, want %q", name, value, got, want)
		}
		t.Setenv(name, was)
	}
	t.Setenv("COLUMNS", "60")
	if got := Width(out); got != 60 {
		t.Errorf("COLUMNS: got width %d, want 60", got)
	}
}

// TestPipeHasNoWidthAndNoColors is the control.
func TestPipeHasNoWidthAndNoColors(t *testing.T) {
	t.Setenv("COLUMNS", "")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if out := (&Writer{&w}); Width(out) != 0 || hasColor(out) {
		t.Errorf("got width %d, colours %t", Width(out), hasColor(out))
	}
}

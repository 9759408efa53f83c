package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"debrief/cmd/internal/program"
)

// maxFileSize is the maximum size of a file, in bytes.
const maxFileSize = 16 << 20

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

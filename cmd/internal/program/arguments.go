package program

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// negative matches a negative number, which the parser of flags takes for another flag.
var negative = regexp.MustCompile(`^-[0-9.]`)

// joinNegative joins a flag with a negative number behind it: --reflections -1 becomes --reflections=-1. No flag begins with a digit.
func joinNegative(args []string) (joined []string) {
	for i, arg := range args {
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		isValue := i > 0 && negative.MatchString(arg) && strings.HasPrefix(args[i-1], "--") && !strings.Contains(args[i-1], "=")
		if isValue {
			joined[len(joined)-1] += "=" + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

// explain returns the error of the parser, or a clearer one for a flag at the end that has no value.
func explain(err error, args []string) error {
	var invalid *kong.ParseError
	if !errors.As(err, &invalid) || invalid.Context == nil || len(args) == 0 {
		return err
	}
	name, isFlag := strings.CutPrefix(args[len(args)-1], "--")
	if !isFlag {
		return err
	}
	lacksValue := false
	eachFlag(invalid.Context.Model.Node, func(flag *kong.Flag) {
		lacksValue = lacksValue || flag.Name == name && !flag.IsBool()
	})
	if !lacksValue {
		return err
	}
	return fmt.Errorf("--%s: has no value", name)
}

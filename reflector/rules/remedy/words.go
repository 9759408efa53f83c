package remedy

import (
	"fmt"
	"slices"
	"strings"
)

// compareCommands returns the differences of two commands of one program. It returns false if they have no operand in
// common, which is a script or an object.
func compareCommands(from, to *arguments) ([]remedy, bool) {
	var changes []remedy
	if from.program != to.program {
		say := fmt.Sprintf("use `%s` in place of `%s`", quote(to.program, maxName), quote(from.program, maxName))
		changes = append(changes, remedy{key: "program " + to.program, rank: rankSet, say: say})
	}
	if from.dir != to.dir {
		changes = append(changes, remedy{key: "folder", rank: rankSet, say: "run it in another folder"})
	}
	options, operands := splitWords(from.words)
	newOptions, newOperands := splitWords(to.words)
	changes = append(changes, changedOptions(options, newOptions)...)
	if slices.Equal(operands, newOperands) && from.text == to.text {
		return changes, true
	}
	related := len(operands) == 0 || len(newOperands) == 0
	for _, o := range operands {
		related = related || slices.ContainsFunc(newOperands, func(p string) bool { return o == p || keepsFile(o, p) })
	}
	if len(operands) == 1 && len(newOperands) == 1 {
		found := compareTexts("", operands[0], newOperands[0])
		changes = append(changes, found...)
		return changes, related || found[0].rank == rankHow
	}
	return append(changes, remedy{key: "change ", rank: rankTrivial, say: "change the arguments"}), related
}

// splitWords separates the options of a command from its operands. The value of an option after "=" is left out.
func splitWords(words []string) (options, operands []string) {
	words = words[:min(len(words), maxWords)]
	for i, w := range words {
		if w == "--" {
			return options, append(operands, words[i+1:]...)
		}
		if len(w) < 2 || w[0] != '-' || strings.Trim(w, "-0123456789.") == "" {
			operands = append(operands, w)
			continue
		}
		name, _, _ := strings.Cut(w, "=")
		options = append(options, name)
	}
	return options, operands
}

// changedOptions returns the options that were added, then those that were removed.
func changedOptions(from, to []string) []remedy {
	var changes []remedy
	for _, o := range to {
		if !slices.Contains(from, o) && len(changes) < maxChanged {
			changes = append(changes, remedy{key: "option " + o, rank: rankSet, say: fmt.Sprintf("add the option `%s`", quote(o, maxName))})
		}
	}
	for _, o := range from {
		if !slices.Contains(to, o) && len(changes) < 2*maxChanged {
			changes = append(changes, remedy{key: "no option " + o, rank: rankSet, say: fmt.Sprintf("leave out the option `%s`", quote(o, maxName))})
		}
	}
	return changes
}

package redact

import (
	"encoding/json"
	"strings"
)

// keepJSON changes edits so that valid JSON stays valid: it replaces only the content of strings, and never a part
// of an escape. Numbers are not changed.
func keepJSON(s string, edits []edit) []edit {
	i := len(s) - len(strings.TrimLeft(s, " \t\n\r"))
	mayBeJSON := i < len(s) && strings.IndexByte(`{["`, s[i]) >= 0
	if !mayBeJSON || !json.Valid([]byte(s)) {
		return edits
	}
	var out []edit
	inside := false
	for k := 0; i < len(s) && k < len(edits); {
		n := unit(s[i:], inside)
		switch {
		case s[i] == '"':
			inside = !inside
		case !inside || i+n <= edits[k].from: // not in a string, or before the edit
		default:
			// Both conditions are needed: two edits may touch, and one edit may span the end of a string.
			last := len(out) - 1
			begunBefore := i > edits[k].from             // the edit began before this unit, perhaps in the middle of another
			isAdjacent := last >= 0 && out[last].to == i // the unit before is replaced, too
			if begunBefore && isAdjacent {
				out[last].to += n
			} else {
				out = append(out, edit{i, i + n, edits[k].kind})
			}
		}
		i += n
		for k < len(edits) && edits[k].to <= i {
			k++
		}
	}
	return out
}

// unit returns the length of the next byte or escape.
func unit(s string, inside bool) int {
	switch {
	case !inside || s[0] != '\\':
		return 1
	case s[1] == 'u':
		return 6
	}
	return 2
}

package curator

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"debrief/playbook"
)

// defaultBurst is the default of Config.MaxBurst.
const defaultBurst = 20

// defaultShare is the maximum share of a bullet's evidence from a limited source, in percent, if the configuration does not
// set one. At least half of the evidence then comes from other sources.
const defaultShare = 50

// inferredShare is the maximum share of a bullet's votes from inferred outcomes, in percent.
const inferredShare = 25

// parseTrust parses entries of the form SOURCE=LEVEL[:SHARE]. The result is sorted by source. Inferred outcomes are limited by
// default.
func parseTrust(list []string) ([]playbook.SourceTrust, error) {
	var all []playbook.SourceTrust
	known := func(source string) bool {
		return slices.ContainsFunc(all, func(t playbook.SourceTrust) bool { return t.Source == source })
	}
	for _, text := range list {
		i := strings.LastIndex(text, "=") // the name of a source may contain "="
		if i < 1 {
			return nil, fmt.Errorf("want SOURCE=LEVEL[:SHARE], got %q", text)
		}
		level, share, hasShare := strings.Cut(text[i+1:], ":")
		t := playbook.SourceTrust{Source: text[:i], Level: playbook.Trust(level)}
		switch t.Level {
		case playbook.Trusted, playbook.Untrusted:
		case playbook.Limited:
			t.Share = defaultShare
		default:
			return nil, fmt.Errorf("level of source %q must be trusted, limited or untrusted, got %q", t.Source, level)
		}
		if hasShare {
			n, err := strconv.Atoi(strings.TrimSuffix(share, "%"))
			isPercentage := err == nil && n >= 1 && n <= 99
			if !isPercentage || t.Level != playbook.Limited {
				return nil, fmt.Errorf("share of source %q must be 1 to 99 percent, for level limited only, got %q", t.Source, share)
			}
			t.Share = n
		}
		if known(t.Source) {
			return nil, fmt.Errorf("duplicate source %q", t.Source)
		}
		all = append(all, t)
	}
	if !known(playbook.InferredSource) {
		all = append(all, playbook.SourceTrust{Source: playbook.InferredSource, Level: playbook.Limited, Share: inferredShare})
	}
	slices.SortFunc(all, func(a, b playbook.SourceTrust) int { return strings.Compare(a.Source, b.Source) })
	return all, nil
}

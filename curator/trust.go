package curator

import (
	"fmt"
	"strconv"
	"strings"

	"debrief/curator/draft"
	"debrief/events"
)

// defaultBurst is the default of Config.MaxBurst.
const defaultBurst = 20

// defaultShare is the maximum share of a bullet's evidence from a limited source, in percent, if the configuration does not
// set one. At least half of the evidence then comes from others.
const defaultShare = 50

// inferredShare is the maximum share of a bullet's votes from inferred outcomes, in percent.
const inferredShare = 25

// parseTrust parses entries of the form SOURCE=LEVEL[:SHARE]. Inferred outcomes are limited by default.
func parseTrust(list []string) (draft.Sources, error) {
	known := make(draft.Sources, len(list)+1)
	for _, text := range list {
		at := strings.LastIndex(text, "=") // the name of a source may contain "="
		if at < 1 {
			return nil, fmt.Errorf("want SOURCE=LEVEL[:SHARE], got %q", text)
		}
		source := text[:at]
		level, share, limit := strings.Cut(text[at+1:], ":")
		s := draft.Source{Level: draft.Trust(level), Share: defaultShare}
		if s.Level != draft.Trusted && s.Level != draft.Limited && s.Level != draft.Untrusted {
			return nil, fmt.Errorf("level of source %q must be trusted, limited or untrusted, got %q", source, level)
		}
		if limit {
			n, err := strconv.Atoi(strings.TrimSuffix(share, "%"))
			if err != nil || n < 1 || n > 99 || s.Level != draft.Limited {
				return nil, fmt.Errorf("share of source %q must be 1 to 99 percent, for level limited only, got %q", source, share)
			}
			s.Share = n
		}
		if _, duplicate := known[source]; duplicate {
			return nil, fmt.Errorf("duplicate source %q", source)
		}
		known[source] = s
	}
	if _, set := known[events.Inferred]; !set {
		known[events.Inferred] = draft.Source{Level: draft.Limited, Share: inferredShare}
	}
	return known, nil
}

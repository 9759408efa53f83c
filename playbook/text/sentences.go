package text

import "strings"

// Sentences splits a text at the ends of sentences and lines. A mark ends a sentence if a space or a quotation mark follows, so not in "3.5".
func Sentences(s string) (all []string) {
	start := 0
	for i := range len(s) {
		isMark := strings.IndexByte(".!?", s[i]) >= 0
		isLast := i+1 == len(s)
		beforeGap := isLast || strings.IndexByte(" \n\"'", s[i+1]) >= 0
		isEnd := s[i] == '\n' || isLast || isMark && beforeGap
		if !isEnd {
			continue
		}
		if sentence := strings.TrimSpace(s[start : i+1]); sentence != "" {
			all = append(all, sentence)
		}
		start = i + 1
	}
	return all
}

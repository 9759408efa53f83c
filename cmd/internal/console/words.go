package console

import "unicode"

// word is a part of two compared texts.
type word struct {
	Text string
	Kind string // "del", "ins" or "" for both texts
}

const maxDiffWords = 1500 // limits the words of each text: the time of a comparison grows with the product of both numbers

// diffWords compares two texts. Words of their longest common subsequence have no kind, the others are "del" or "ins". Texts with more
// than maxDiffWords words are not compared.
func diffWords(before, after string) []word {
	a, b := splitWords(before), splitWords(after)
	if len(a) > maxDiffWords || len(b) > maxDiffWords {
		return []word{{before, "del"}, {after, "ins"}}
	}
	common := make([][]int, len(a)+1) // length of the longest common subsequence of a[i:] and b[j:]
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []word
	add := func(text, kind string) {
		if n := len(out); n > 0 && out[n-1].Kind == kind {
			out[n-1].Text += text
			return
		}
		out = append(out, word{text, kind})
	}
	i, j := 0, 0
	for i < len(a) && j < len(b) {
		switch {
		case a[i] == b[j]:
			add(a[i], "")
			i++
			j++
		case common[i+1][j] >= common[i][j+1]:
			add(a[i], "del")
			i++
		default:
			add(b[j], "ins")
			j++
		}
	}
	for ; i < len(a); i++ {
		add(a[i], "del")
	}
	for ; j < len(b); j++ {
		add(b[j], "ins")
	}
	return out
}

// splitWords splits a text after each run of spaces, so that the joined words are the text.
func splitWords(s string) (out []string) {
	start, space := 0, false
	for i, r := range s {
		if space && !unicode.IsSpace(r) {
			out = append(out, s[start:i])
			start = i
		}
		space = unicode.IsSpace(r)
	}
	if start < len(s) {
		out = append(out, s[start:])
	}
	return out
}

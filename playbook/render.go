package playbook

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Top returns the n active bullets with the highest score, best first; equal scores are ordered by id. The caller must
// not change the bullets.
func (p *Playbook) Top(n int) []*Bullet {
	best := NewTop(n, CompareScores)
	for _, e := range p.bullets {
		if e.Bullet.Shown() {
			best.Offer(e.Bullet)
		}
	}
	return best.Sorted()
}

// CompareScores orders bullets by score, the best first, and equal scores by id.
func CompareScores(a, b *Bullet) int {
	return cmp.Or(cmp.Compare(b.Score(), a.Score()), cmp.Compare(a.ID, b.ID))
}

// Render formats bullets as Markdown for a prompt: sections sorted by name, bullets in the given order. The second and
// later lines of a content are indented, so that none of them looks like a header or another bullet. The text has no votes,
// so that it changes only with the contents and a provider's cache can reuse it.
func Render(bullets []*Bullet) string { return render(bullets, false) }

// RenderWithVotes is Render with the votes behind each content.
func RenderWithVotes(bullets []*Bullet) string { return render(bullets, true) }

func render(bullets []*Bullet, votes bool) string {
	var out strings.Builder
	renderSections(&out, bullets, votes)
	return out.String()
}

// renderSections writes the title and the sections with their bullets. Without bullets it writes nothing.
func renderSections(out *strings.Builder, bullets []*Bullet, votes bool) {
	if len(bullets) == 0 {
		return
	}
	sections := make([]string, 0, 8)
	for _, b := range bullets {
		if !slices.Contains(sections, b.Section) {
			sections = append(sections, b.Section)
		}
	}
	slices.Sort(sections)
	out.WriteString("## Learned Strategies\n")
	for _, s := range sections {
		out.WriteString("\n### ")
		out.WriteString(SectionTitle(s))
		out.WriteString("\n")
		for _, b := range bullets {
			if b.Section == s {
				renderLine(out, b, votes)
			}
		}
	}
}

// renderLine writes the lines of a bullet.
func renderLine(out *strings.Builder, b *Bullet, votes bool) {
	out.WriteString("- [")
	out.WriteString(string(b.ID))
	out.WriteString("] ")
	out.WriteString(strings.ReplaceAll(b.Content, "\n", "\n  "))
	if votes {
		out.WriteString(" (helpful=")
		out.WriteString(strconv.Itoa(b.Helpful))
		out.WriteString(", harmful=")
		out.WriteString(strconv.Itoa(b.Harmful))
		out.WriteByte(')')
	}
	out.WriteByte('\n')
}

// newHeader is the text above the bullets that are not established. It refers to no other bullets, because there may be none.
const newHeader = "\n## New Advice\n\nFrom few results yet. What the task itself states goes first, unless a bullet says that results showed something else.\n"

// RenderPrompt formats bullets for a prompt in two parts: the established bullets as Render formats them, and then the others in the
// given order. The others change often. They come last, so that the beginning of the prompt stays the same for a provider's cache.
func RenderPrompt(bullets []*Bullet, votes bool) string { return AppendPrompt("", bullets, votes) }

// AppendPrompt returns the text followed by the result of RenderPrompt.
func AppendPrompt(text string, bullets []*Bullet, votes bool) string {
	established := make([]*Bullet, 0, len(bullets))
	var newer []*Bullet
	for _, b := range bullets {
		if b.Established() {
			established = append(established, b)
		} else {
			newer = append(newer, b)
		}
	}
	size := len(text) + 256 // with the headers
	for _, b := range bullets {
		size += len(b.ID) + len(b.Content) + 8 // with the marks
	}
	var out strings.Builder
	out.Grow(size) // without it a tenth of the memory of a context is allocated again
	out.WriteString(text)
	renderSections(&out, established, votes)
	if len(newer) > 0 {
		header := newHeader
		if strings.HasSuffix(out.String(), "\n\n") { // the text ends with the empty line above the header
			header = header[1:]
		}
		out.WriteString(header)
	}
	for _, b := range newer {
		renderLine(&out, b, votes)
	}
	return out.String()
}

// SectionTitle formats a section name for display: "common_mistakes" becomes "Common Mistakes".
func SectionTitle(section string) string {
	words := strings.FieldsFunc(section, func(r rune) bool { return r == '_' || r == ' ' })
	for i, w := range words {
		r := []rune(w)
		words[i] = strings.ToUpper(string(r[:1])) + string(r[1:])
	}
	return strings.Join(words, " ")
}

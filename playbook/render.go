package playbook

import (
	"cmp"
	"container/heap"
	"slices"
	"strconv"
	"strings"
)

// Top is the n shown bullets with the highest score, best first; equal scores by id. It looks at every bullet once
// and copies nothing.
func (p *Playbook) Top(n int) []*Bullet {
	if n <= 0 {
		return nil
	}
	h := make(worstFirst, 0, n+1)
	for _, e := range p.bullets {
		b := e.Bullet
		switch {
		case !b.Shown():
		case len(h) < n:
			heap.Push(&h, b)
		case before(b, h[0]):
			h[0] = b
			heap.Fix(&h, 0)
		}
	}
	slices.SortFunc(h, order)
	return h
}

func order(a, b *Bullet) int {
	return cmp.Or(cmp.Compare(b.Score(), a.Score()), cmp.Compare(a.ID, b.ID))
}

func before(a, b *Bullet) bool { return order(a, b) < 0 }

// worstFirst is a heap whose root is the bullet to give up next.
type worstFirst []*Bullet

func (h worstFirst) Len() int           { return len(h) }
func (h worstFirst) Less(i, j int) bool { return before(h[j], h[i]) }
func (h worstFirst) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *worstFirst) Push(x any)        { *h = append(*h, x.(*Bullet)) }
func (h *worstFirst) Pop() any {
	old := *h
	b := old[len(old)-1]
	*h = old[:len(old)-1]
	return b
}

// Render is the bullets as a prompt shows them: Markdown, sections by name, bullets in the order given. Content of
// several lines is indented under its bullet, so that no line of it can pass for a header or another bullet.
func Render(bullets []*Bullet) string {
	if len(bullets) == 0 {
		return ""
	}
	sections := make([]string, 0, 8)
	for _, b := range bullets {
		if !slices.Contains(sections, b.Section) {
			sections = append(sections, b.Section)
		}
	}
	slices.Sort(sections)

	var out strings.Builder
	out.Grow(160 * len(bullets))
	out.WriteString("## Learned Strategies\n")
	for _, s := range sections {
		out.WriteString("\n### ")
		out.WriteString(Title(s))
		out.WriteString("\n")
		for _, b := range bullets {
			if b.Section != s {
				continue
			}
			out.WriteString("- [")
			out.WriteString(string(b.ID))
			out.WriteString("] ")
			indent(&out, b.Content)
			out.WriteString(" (helpful=")
			out.WriteString(strconv.Itoa(b.Helpful))
			out.WriteString(", harmful=")
			out.WriteString(strconv.Itoa(b.Harmful))
			out.WriteString(")\n")
		}
	}
	return out.String()
}

func indent(out *strings.Builder, content string) {
	for {
		line, rest, more := strings.Cut(content, "\n")
		out.WriteString(line)
		if !more {
			return
		}
		out.WriteString("\n  ")
		content = rest
	}
}

// Title is a section's name for people: "common_mistakes" is "Common Mistakes".
func Title(section string) string {
	words := strings.FieldsFunc(section, func(r rune) bool { return r == '_' || r == ' ' })
	for i, w := range words {
		r := []rune(w)
		words[i] = strings.ToUpper(string(r[:1])) + string(r[1:])
	}
	return strings.Join(words, " ")
}

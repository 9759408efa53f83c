package shell

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Split returns the words of a command without their quotes. It expands nothing: $HOME and * stay.
func Split(command string) (words []string, err error) {
	w := walker{source: command}
	for word, err := range syntax.NewParser().WordsSeq(strings.NewReader(command)) {
		if err != nil {
			return nil, err
		}
		words = append(words, w.text(word))
	}
	return words, nil
}

// text returns a word without its quotes. Expansions keep their source text.
func (w *walker) text(word *syntax.Word) string {
	if word == nil {
		return ""
	}
	var b strings.Builder
	w.write(&b, word.Parts, false)
	return b.String()
}

func (w *walker) write(b *strings.Builder, parts []syntax.WordPart, quoted bool) {
	for _, part := range parts {
		switch p := part.(type) {
		case *syntax.Lit:
			unescape(b, p.Value, quoted)
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
			if p.Right.IsRecovered() { // the parser drops an unclosed text
				b.WriteString(w.source[min(int(p.Left.Offset())+1, len(w.source)):])
			}
		case *syntax.DblQuoted:
			w.write(b, p.Parts, true)
		default:
			b.WriteString(w.sourceOf(p))
		}
	}
}

// body returns the text of a here-document. Backslashes stay.
func (w *walker) body(word *syntax.Word) string {
	var b strings.Builder
	for _, part := range word.Parts {
		if l, ok := part.(*syntax.Lit); ok {
			b.WriteString(l.Value)
		} else {
			b.WriteString(w.sourceOf(part))
		}
	}
	return b.String()
}

// unescape removes the backslashes of a literal. Between double quotes a backslash escapes only a few characters.
func unescape(b *strings.Builder, s string, quoted bool) {
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 == len(s) {
			b.WriteString(s)
			return
		}
		b.WriteString(s[:i])
		if next := s[i+1]; quoted && strings.IndexByte("$`\"\\\n", next) < 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(s[i+1])
		s = s[i+2:]
	}
}

// sourceOf returns the source of a node. A node that the parser has repaired ends at the end of the source.
func (w *walker) sourceOf(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if n.End().IsRecovered() || to < from || to > len(w.source) {
		to = len(w.source)
	}
	return w.source[min(from, to):to]
}

// assignment returns an assignment as name=value, or the bare word of a declaration.
func (w *walker) assignment(a *syntax.Assign) string {
	switch {
	case a.Name == nil:
		return w.text(a.Value)
	case a.Naked:
		return a.Name.Value
	case a.Array != nil || a.Index != nil:
		return w.sourceOf(a)
	case a.Append:
		return a.Name.Value + "+=" + w.text(a.Value)
	}
	return a.Name.Value + "=" + w.text(a.Value)
}

package formats

import (
	"fmt"
	"strconv"
	"strings"

	"debrief/playbook"
	"debrief/playbook/text"
)

// textWriter writes one text.
type textWriter struct {
	*writer
	ids  map[playbook.BulletID]string // ids in the text
	out  strings.Builder
	want []block // the headers and bullets that the text must parse to
}

// writeText writes a text file, one section after the other.
func (w *writer) writeText() ([]byte, error) {
	t := &textWriter{writer: w, ids: map[playbook.BulletID]string{}}
	t.nameBullets()
	order, bySection := groupBySection(w.bullets)
	for i, section := range order {
		if i > 0 {
			t.out.WriteByte('\n')
		}
		title := headerFor(section)
		got := sectionOf(title)
		t.out.WriteString("## " + title + "\n")
		t.want = append(t.want, block{line: line{kind: header}})
		for _, b := range bySection[section] {
			t.bullet(b)
			if got != section {
				t.addLoss(b.ID, "section", "Read returns section %q as %q", section, got)
			}
		}
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("the written text does not parse to the same bullets: %w", err)
	}
	return []byte(t.out.String()), nil
}

// nameBullets assigns each bullet an id that is valid in a line of the format.
func (t *textWriter) nameBullets() {
	names := newNamer(nil)
	for _, b := range t.bullets {
		if t.validID(string(b.ID)) {
			names.used[string(b.ID)] = true
			t.ids[b.ID] = string(b.ID)
		}
	}
	for _, b := range t.bullets {
		if _, ok := t.ids[b.ID]; ok {
			continue
		}
		id, _ := names.name(t.repairID(string(b.ID)), "", "")
		t.ids[b.ID] = string(id)
		t.addLoss(b.ID, "id", "invalid id in %s; written as %s", t.format, id)
	}
}

func (t *textWriter) validID(id string) bool {
	if checkID(id) != nil {
		return false
	}
	l := classify("["+id+"] x", t.format)
	return t.format == ACE || (l.kind == bullet && l.id == id && !l.counted)
}

// repairID returns a similar id that is valid in a line of the format.
func (t *textWriter) repairID(id string) string {
	if id = repairID(id); t.validID(id) {
		return id
	}
	id = "b-" + strings.Map(func(r rune) rune {
		if plainLine.MatchString("[b" + string(r) + "]") {
			return r
		}
		return '-'
	}, id)
	return text.Prefix(id, playbook.MaxID-8) // room for the number of a duplicate
}

// bullet writes the lines of a bullet.
func (t *textWriter) bullet(b *playbook.Bullet) {
	l := line{kind: bullet, id: t.ids[b.ID]}
	lines, changes := escape(t.format, b.Content)
	var held []string
	prefix, indentation := "["+l.id+"] ", ""
	if t.format == ACE {
		held, indentation = []string{"helpful", "harmful"}, "  "
		l.counted, l.helpful, l.harmful = true, b.Helpful, b.Harmful
		prefix += "helpful=" + strconv.Itoa(b.Helpful) + " harmful=" + strconv.Itoa(b.Harmful) + " :: "
		if n := len(lines); n > 1 {
			changes = append(changes, fmt.Sprintf("the content has %d lines; the tools of ace read only the first as the bullet", n))
		}
	}
	t.out.WriteString(prefix + strings.Join(lines, "\n"+indentation) + "\n")
	t.want = append(t.want, block{line: l, body: strings.Join(lines, "\n")})
	for _, change := range changes {
		t.addLoss(b.ID, "content", "%s", change)
	}
	t.losses = append(t.losses, lossesOf(t.format, b, held...)...)
}

// check parses the text like Read and compares the result with the written bullets.
func (t *textWriter) check() error {
	got, outside := scan(t.out.String(), t.format)
	if len(got) != len(t.want) || outside > 0 {
		return fmt.Errorf("got %d headers and bullets and %d other lines, want %d headers and bullets", len(got), outside, len(t.want))
	}
	for i := range got {
		g, w := &got[i], &t.want[i]
		content, err := playbook.CleanContent(g.body)
		same := g.id == w.id && g.counted == w.counted && g.helpful == w.helpful && g.harmful == w.harmful && content == w.body && err == nil
		if g.kind != w.kind || w.kind == bullet && !same {
			return fmt.Errorf("line %d: the header or bullet differs", g.lineNo)
		}
	}
	return nil
}

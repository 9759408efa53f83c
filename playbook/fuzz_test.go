package playbook_test

import (
	"testing"

	"debrief/playbook"
)

// FuzzContentStaysContent: with any content and section name, a reader of the prompt sees one bullet with this content in
// this section.
func FuzzContentStaysContent(f *testing.F) {
	for _, text := range forgeries {
		if len(text) < 1<<12 {
			f.Add(text, text)
		}
	}
	f.Fuzz(func(t *testing.T, text, section string) {
		content, err := playbook.CleanContent(text)
		if err != nil {
			return
		}
		b := &playbook.Bullet{ID: "misc-00001", Section: playbook.Section(section), Content: content, Helpful: 3, Harmful: 1}
		other := &playbook.Bullet{ID: "misc-00002", Section: "others", Content: "another"}
		got, err := read(playbook.RenderWithVotes([]*playbook.Bullet{b, other}))
		if err != nil || len(got) != 2 {
			t.Fatalf("got %d bullets, %v, want 2", len(got), err)
		}
		if got[0].id != string(b.ID) {
			got[0], got[1] = got[1], got[0]
		}
		want := [2]parsedBullet{
			{playbook.SectionTitle(b.Section), "misc-00001", content, 3, 1},
			{"Others", "misc-00002", "another", 0, 0},
		}
		if [2]parsedBullet(got) != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		d := playbook.Delta{Version: 1, Ops: []playbook.Op{{Kind: playbook.Add, Bullet: b.ID, Section: b.Section, Content: content}}}
		if err := d.Validate(); err != nil {
			t.Fatalf("cleaned content is rejected: %v", err)
		}
	})
}

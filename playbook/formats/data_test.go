package formats_test

import (
	"cmp"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// The tests here read published playbooks of other projects. These files are kept outside the repository.

func dataFile(t testing.TB, name string) []byte {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no published playbooks: %v (set DEBRIEF_DATA to their folder)", err)
	}
	return raw
}

func TestPublishedPlaybooks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file    string
		format  formats.Format
		bullets int
		first   playbook.BulletID
	}{
		{"ace/appworld_initial_playbook.txt", formats.ACE, 8, "shr-00001"},
		{"ace/appworld_offline_trained_no_gt_playbook.txt", formats.ACE, 318, "shr-00001"},
		{"ace/appworld_online_trained_playbook.txt", formats.ACE, 359, "shr-00001"},
		{"kayba/skillbook.json", formats.Kayba, 6, "customer_service_structure-00001"},
	} {
		doc, err := formats.Read(dataFile(t, test.file), "", nil)
		if err != nil {
			t.Fatalf("%s: %v", test.file, err)
		}
		if doc.Format != test.format || len(doc.Bullets) != test.bullets || doc.Bullets[0].ID != test.first || len(doc.Notes) != 0 {
			t.Errorf("%s: got %s, %d bullets from %s on, notes %v", test.file, doc.Format, len(doc.Bullets), doc.Bullets[0].ID, doc.Notes)
		}
		for _, b := range doc.Bullets {
			clean, err := playbook.CleanContent(b.Content)
			if err != nil || clean != b.Content || playbook.Section(b.Section) != b.Section {
				t.Errorf("%s: bullet %s is not clean", test.file, b.ID)
			}
		}
		out, losses := write(t, doc)
		again := read(t, out, "")
		if len(losses) != 0 || again.Format != doc.Format || len(again.Notes) != 0 || !slices.EqualFunc(again.Bullets, doc.Bullets, same) {
			t.Errorf("%s: read back as %s, %d bullets, losses %v, notes %v", test.file, again.Format, len(again.Bullets), losses, again.Notes)
		}
	}
}

// The ids of the file begin with the slugs of the authors' table.
func TestPublishedIDsHaveTheSlugsOfTheirSections(t *testing.T) {
	t.Parallel()
	doc, err := formats.Read(dataFile(t, "ace/appworld_online_trained_playbook.txt"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range doc.Bullets {
		slug, _, _ := strings.Cut(string(b.ID), "-")
		if want := playbook.MintID(b.Section, 1); !strings.HasPrefix(string(want), slug+"-") {
			t.Errorf("%s is in section %s, want an id like %s", b.ID, b.Section, want)
		}
	}
}

// Every other format can store the data of appworld.
func TestPublishedPlaybooksFitEveryFormat(t *testing.T) {
	t.Parallel()
	doc, err := formats.Read(dataFile(t, "ace/appworld_offline_trained_no_gt_playbook.txt"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	readable, _ := formats.Formats()
	for _, f := range readable {
		out, losses, err := formats.Write(f, "book", doc.Bullets)
		if err != nil || len(losses) != 0 {
			t.Errorf("%s: losses %v, error %v", f, losses, err)
		}
		again, err := formats.Read(out, "", nil)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if again.Format != f || !slices.EqualFunc(again.Bullets, doc.Bullets, same) {
			t.Errorf("%s: got %s with %d bullets, want %d", f, again.Format, len(again.Bullets), len(doc.Bullets))
		}
	}
}

func same(a, b *playbook.Bullet) bool { return reflect.DeepEqual(a, b) }

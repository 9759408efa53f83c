package formats_test

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// The tests here read playbooks that other projects published, which are kept beside the checkout and not in it.

func dataFile(t testing.TB, name string) []byte {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Skipf("no published playbooks: %v (DEBRIEF_DATA names their folder)", err)
	}
	return raw
}

func TestPublishedPlaybooksComeOutAsTheyWentIn(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		file    string
		format  formats.Format
		bullets int
		first   playbook.BulletID
	}{
		{"ace/appworld_initial_playbook.txt", formats.AppWorld, 8, "shr-00001"},
		{"ace/appworld_offline_trained_no_gt_playbook.txt", formats.AppWorld, 318, "shr-00001"},
		{"ace/appworld_online_trained_playbook.txt", formats.AppWorld, 359, "shr-00001"},
		{"kayba/skillbook.json", formats.Kayba, 6, "customer_service_structure-00001"},
	} {
		raw := dataFile(t, test.file)
		doc, err := formats.Read(raw, "", nil)
		if err != nil {
			t.Fatalf("%s: %v", test.file, err)
		}
		if doc.Format != test.format || len(doc.Bullets) != test.bullets || doc.Bullets[0].ID != test.first || len(doc.Notes) != 0 {
			t.Errorf("%s: got %s, %d bullets from %s on, notes %v", test.file, doc.Format, len(doc.Bullets), doc.Bullets[0].ID, doc.Notes)
		}
		for _, b := range doc.Bullets {
			clean, err := playbook.CleanContent(b.Content)
			if err != nil || clean != b.Content || playbook.Section(b.Section) != b.Section {
				t.Errorf("%s: bullet %s is not as a playbook has it", test.file, b.ID)
			}
			if bytes.Contains(doc.Frame, []byte(b.Content)) {
				t.Errorf("%s: the frame repeats what bullet %s says", test.file, b.ID)
			}
		}
		shuffled := slices.Clone(doc.Bullets)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		out, losses, err := formats.Write(doc.Format, "book", shuffled, doc.Frame)
		if err != nil || len(losses) != 0 || !bytes.Equal(out, raw) {
			t.Errorf("%s: got %d bytes for %d, losses %v, error %v", test.file, len(out), len(raw), losses, err)
		}
	}
}

// Sections as the authors' table of slugs has them: the ids of the file begin with the slug of their section.
func TestPublishedSectionsHaveTheSlugsOfTheirBullets(t *testing.T) {
	t.Parallel()
	doc, err := formats.Read(dataFile(t, "ace/appworld_online_trained_playbook.txt"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range doc.Bullets {
		slug, _, _ := strings.Cut(string(b.ID), "-")
		if want := playbook.MintID(b.Section, 1); !strings.HasPrefix(string(want), slug+"-") {
			t.Errorf("%s is in %s, whose bullets begin like %s", b.ID, b.Section, want)
		}
	}
}

// Every other format holds what appworld does.
func TestPublishedPlaybooksFitEveryFormat(t *testing.T) {
	t.Parallel()
	doc, err := formats.Read(dataFile(t, "ace/appworld_offline_trained_no_gt_playbook.txt"), "", nil)
	if err != nil {
		t.Fatal(err)
	}
	readable, _ := formats.Formats()
	for _, f := range readable {
		out, losses, err := formats.Write(f, "book", doc.Bullets, doc.Frame)
		if err != nil || len(losses) != 0 {
			t.Errorf("%s: losses %v, error %v", f, losses, err)
		}
		again, err := formats.Read(out, "", nil)
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		if again.Format != f || !slices.EqualFunc(again.Bullets, doc.Bullets, same) {
			t.Errorf("%s: got %s with %d bullets, not the %d that were written", f, again.Format, len(again.Bullets), len(doc.Bullets))
		}
	}
}

func same(a, b *playbook.Bullet) bool { return reflect.DeepEqual(a, b) }

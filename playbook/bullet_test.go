package playbook_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"debrief/playbook"
)

func TestMintIDNamesTheSection(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]playbook.BulletID{
		// ace-agent/ace
		"formulas_and_calculations":    "calc-00007",
		"code_snippets_and_templates":  "code-00007",
		"common_mistakes_to_avoid":     "err-00007",
		"problem_solving_heuristics":   "prob-00007",
		"context_clues_and_indicators": "ctx-00007",
		"others":                       "misc-00007",
		"meta_strategies":              "meta-00007",
		// ace-agent/ace-appworld
		"strategies_and_hard_rules":                "shr-00007",
		"apis_to_use_for_specific_information":     "api-00007",
		"useful_code_snippets_and_templates":       "code-00007",
		"common_mistakes_and_correct_strategies":   "cms-00007",
		"problem_solving_heuristics_and_workflows": "psw-00007",
		"verification_checklist":                   "vc-00007",
		"troubleshooting_and_pitfalls":             "ts-00007",
		// the rest
		"tools":                       "tool-00007",
		"sql":                         "sql-00007",
		"house_rules":                 "hr-00007",
		"one_two_three_four_five_six": "ottff-00007",
		"":                            "misc-00007",
		"ключи":                       "misc-00007",
		"a/b":                         "ab-00007",
		"x\n[y] helpful=99":           "xyh9-00007",
	} {
		if got := playbook.MintID(section, 7); got != want {
			t.Errorf("%q: got %s, want %s", section, got, want)
		}
		if got := string(playbook.MintID(section, 7)); playbook.BulletID(got).Key() != got {
			t.Errorf("%q: %s is not a token of a key", section, got)
		}
	}
	if got, want := playbook.MintID("others", 123456), playbook.BulletID("misc-123456"); got != want {
		t.Errorf("more than five digits: got %s, want %s", got, want)
	}
}

func TestKeyIsOneToken(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ id, want playbook.BulletID }{
		{"misc-00001", "misc-00001"},
		{"a.b", "x-LnM23I66h-9HLfVow1SCq_"},
		{"", "x-47DEQpj8HBSa-_TImW-5JC"},
		{playbook.BulletID(strings.Repeat("a", 64)), playbook.BulletID(strings.Repeat("a", 64))},
	} {
		if got := test.id.Key(); got != string(test.want) {
			t.Errorf("%q: got %s, want %s", test.id, got, test.want)
		}
	}
	for _, id := range []playbook.BulletID{"a b", "a.>", "*", "naïve", playbook.BulletID(strings.Repeat("a", 65))} {
		if key := id.Key(); playbook.Book(key).Validate() != nil || len(key) != 24 {
			t.Errorf("%q: key %q is not a token of 24", id, key)
		}
	}
}

func TestBookNames(t *testing.T) {
	t.Parallel()
	for name, ok := range map[playbook.Book]bool{
		"main": true, "A-z_0": true, "": false, "a.b": false, "a b": false, "*": false, ">": false, "a\n": false,
		playbook.Book(strings.Repeat("a", 64)): true, playbook.Book(strings.Repeat("a", 65)): false,
	} {
		if err := name.Validate(); (err == nil) != ok {
			t.Errorf("%q: got %v, want valid %v", name, err, ok)
		}
	}
}

func TestCleanContent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ why, in, want string }{
		{"plain text stays", "a — ß 漢 🙂", "a — ß 漢 🙂"},
		{"newlines and tabs stay", "for x:\n\ty()", "for x:\n\ty()"},
		{"CRLF becomes a newline", "a\r\nb", "a\nb"},
		{"NUL and control characters go", "a\x00b\x1b[31mc\u0085d\x7f", "ab[31mcd"},
		{"line separators become spaces", "a\u2028b\u2029c", "a b c"},
		{"invalid UTF-8 is marked", "a\xff\xfeb", "a\uFFFDb"},
		{"white space around it goes", " \n\t a \r\n", "a"},
		{"only control characters are nothing", "\x00\r\n \x01", ""},
		{"nothing is nothing", "", ""},
		{"as long as may be", strings.Repeat("a", playbook.MaxContent), strings.Repeat("a", playbook.MaxContent)},
		{"longer", strings.Repeat("a", playbook.MaxContent+1), ""},
		{"a megabyte in one line", strings.Repeat("x", 1<<20), ""},
		{"long, but not without its control characters", strings.Repeat("\x00", 1<<20) + "a", "a"},
	} {
		got, err := playbook.CleanContent(test.in)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: got %.40q, %v; want %.40q", test.why, got, err, test.want)
		}
	}
}

func TestSection(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Formulas & Calculations":       "formulas_and_calculations",
		"  ## Others ":                  "others",
		"a\n## B\n[x] helpful=99 ::":    "a_b_x_helpful=99_::",
		"":                              "misc",
		"##":                            "misc",
		"\x00\r\n":                      "misc",
		"a__b  c":                       "a_b_c",
		"ÄRGER":                         "ärger",
		strings.Repeat("ab ", 1000):     strings.Repeat("ab_", 66) + "ab",
		strings.Repeat("é", 1000):       strings.Repeat("é", 100),
		strings.Repeat("a", 199) + " b": strings.Repeat("a", 199),
	} {
		if got := playbook.Section(in); got != want {
			t.Errorf("%.40q: got %q, want %q", in, got, want)
		}
	}
}

// TestCleaningTwiceIsCleaningOnce: Validate checks stored contents by cleaning them again.
func TestCleaningTwiceIsCleaningOnce(t *testing.T) {
	t.Parallel()
	draw := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 300), func(b []byte) string { return string(b) }),
		rapid.StringOfN(rapid.SampledFrom([]rune(" _#[]&\n\tİßé\u2028\u00a0a")), 0, 250, -1))
	rapid.Check(t, func(t *rapid.T) {
		in := draw.Draw(t, "text")
		section := playbook.Section(in)
		if again := playbook.Section(section); again != section || len(section) > playbook.MaxSection || strings.ContainsAny(section, "\n\r\t#[] ") || !utf8.ValidString(section) {
			t.Fatalf("section of %q: %q, then %q", in, section, again)
		}
		content, err := playbook.CleanContent(in)
		if err != nil {
			return
		}
		if again, err := playbook.CleanContent(content); again != content || err != nil || !utf8.ValidString(content) {
			t.Fatalf("content of %q: %q, then %q, %v", in, content, again, err)
		}
	})
}

func golden() *playbook.Bullet {
	return &playbook.Bullet{
		ID: "calc-00001", Section: "formulas_and_calculations", When: "it adds up", Content: "When it adds up: Round at the end.", Helpful: 3, Harmful: 1, Neutral: 2,
		Status: playbook.Active, Pinned: true,
		CreatedAt: time.Unix(1, 0), UpdatedAt: time.Unix(2, 0), LastUsed: time.Unix(3, 0),
	}
}

func stateHash(bullets ...*playbook.Bullet) string {
	return fmt.Sprintf("%x", playbook.Restore(1, 1, slices.Values(bullets)).StateHash())
}

// TestStateHashIsStable fixes the hash: every machine and every later version must compute the same.
func TestStateHashIsStable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what string
		got  string
		want string
	}{
		{"the empty playbook", stateHash(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{"one bullet", stateHash(golden()), "4eaab35f043a787590d4c2f50e8ebb181ab54b6e48a5a10d0e56d0b88adfcb9a"},
		{"two bullets", stateHash(golden(), &playbook.Bullet{ID: "a-2", Section: "others", Content: "x"}), "2ea415a02bea9bd5999448f1cfd08921725f554011bd26d947104c41d3d13123"},
	} {
		if test.got != test.want {
			t.Errorf("%s: got %s, want %s", test.what, test.got, test.want)
		}
	}
}

func TestStateHashCoversOnlyTheState(t *testing.T) {
	t.Parallel()
	covered := map[string]bool{
		"ID": true, "Section": true, "When": true, "Content": true, "Helpful": true, "Harmful": true, "Neutral": true, "Status": true, "Pinned": true,
		"CreatedAt": false, "UpdatedAt": false, "LastUsed": false,
		// Measurements and origin.
		"Experiment": false, "SupportBySource": false, "Replaces": false, "Contests": false,
		"InferredSupport": false, "OnlyInferred": false, "LearnedFrom": false, "Approved": false,
	}
	base := stateHash(golden())
	for f := range reflect.TypeFor[playbook.Bullet]().Fields() {
		want, known := covered[f.Name]
		if !known {
			t.Errorf("field %s: say here whether the state hash covers it", f.Name)
			continue
		}
		b := golden()
		switch v := reflect.ValueOf(b).Elem().FieldByIndex(f.Index); v.Interface().(type) {
		case int:
			v.SetInt(v.Int() + 1)
		case bool:
			v.SetBool(!v.Bool())
		case time.Time:
			v.Set(reflect.ValueOf(time.Unix(99, 0)))
		case *playbook.Experiment:
			v.Set(reflect.ValueOf(&playbook.Experiment{Number: 7}))
		case []uint64:
			v.Set(reflect.ValueOf([]uint64{7}))
		case []playbook.SourceSupport:
			v.Set(reflect.ValueOf([]playbook.SourceSupport{{Source: "s", Count: 1}}))
		default:
			v.SetString(v.String() + "x")
		}
		if changed := stateHash(b) != base; changed != want {
			t.Errorf("field %s: hash changed %v, want %v", f.Name, changed, want)
		}
		sum := playbook.Restore(1, 1, slices.Values([]*playbook.Bullet{b})).Checksum() != playbook.Restore(1, 1, slices.Values([]*playbook.Bullet{golden()})).Checksum()
		if sum != want {
			t.Errorf("field %s: checksum changed %v, want %v", f.Name, sum, want)
		}
	}
	b := golden()
	if b.Status = ""; stateHash(b) != base {
		t.Error("the empty status means active, but has another hash")
	}
	x, y := golden(), golden()
	x.Section, x.Content = "ab", "c"
	y.Section, y.Content = "a", "bc"
	if stateHash(x) == stateHash(y) {
		t.Error("text moved to another field has the same hash")
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	if got := playbook.VersionLabel(17, []byte{0xab, 0x12, 0xcd, 0xef}); got != "17@ab12cd" {
		t.Errorf("got %s, want 17@ab12cd", got)
	}
	if got := playbook.VersionLabel(0, nil); got != "0" {
		t.Errorf("got %s, want 0", got)
	}
}

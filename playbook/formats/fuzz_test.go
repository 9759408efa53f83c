package formats_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// FuzzRead reads arbitrary data as each format. If that succeeds, Write must write the bullets so that Read returns them.
func FuzzRead(f *testing.F) {
	for i, seed := range []string{
		house, "## A\n[a-1] one ```python\n## x\n```\n[b] two\n", "\ufeff[a-1] x\r\n", kayba06, kayba09, kayba093, swe,
		`{"skills":{"a-1":{"content":"one","helpful":-1},"a-1":{"content":"two","embedding":[1]}},"sections":{"x":["a-1",7]},"next_id":1}`,
		`{"format":"debrief-playbook","schema":1,"book":"b","bullets":[{"id":"a","section":"s","content":"c"}]}`,
		"{\"format\":\"debrief-playbook\",\"schema\":1}\n{\"id\":\"a\",\"section\":\"s\",\"content\":\"c\"}\n",
	} {
		f.Add([]byte(seed), uint8(i))
		f.Add([]byte(seed), uint8(0))
	}
	readable, _ := formats.Formats()
	f.Fuzz(func(t *testing.T, data []byte, which uint8) {
		format := formats.Format("")
		if n := int(which) % (len(readable) + 1); n > 0 {
			format = readable[n-1]
		}
		doc, err := formats.Read(data, format, nil)
		if err != nil {
			return
		}
		checkStable(t, doc)
	})
}

// checkStable writes and reads bullets twice. Their number must stay the same, and the second round must
// not change them.
func checkStable(t *testing.T, doc *formats.Document) {
	var last []*playbook.Bullet
	all := doc.Bullets
	for range 2 {
		out, _, err := formats.Write(doc.Format, "", all)
		if err != nil {
			t.Fatal(err)
		}
		again, err := formats.Read(out, doc.Format, nil)
		if err != nil || len(again.Bullets) != len(doc.Bullets) {
			t.Fatalf("error %v, %d bullets became %q", err, len(doc.Bullets), out)
		}
		last, all = all, again.Bullets
	}
	if !slices.EqualFunc(last, all, func(a, b *playbook.Bullet) bool { return reflect.DeepEqual(a, b) }) {
		t.Fatalf("the second round differs:\n%s\n%s", show(last), show(all))
	}
}

func show(all []*playbook.Bullet) string {
	raw, _ := json.Marshal(all)
	return string(raw)
}

// FuzzWrite writes a bullet with an arbitrary id and content before another one. Read must find both.
func FuzzWrite(f *testing.F) {
	f.Add("a-1", "## X\n[x] helpful=9 harmful=0 :: y\n```")
	f.Add("[x] y", "helpful=9 harmful=0 :: y")
	readable, _ := formats.Formats()
	f.Fuzz(func(t *testing.T, id, content string) {
		all := []*playbook.Bullet{{ID: playbook.BulletID(id), Section: "tools", Content: content}, {ID: "b-1", Section: "x", Content: "last"}}
		if id == "b-1" || all[0].ID.CheckNumber() != nil {
			return
		}
		want := 2
		if _, err := playbook.CleanContent(content); err != nil {
			want = 1
		}
		for _, format := range readable {
			out, _, err := formats.Write(format, "", all)
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if doc, err := formats.Read(out, format, nil); err != nil || len(doc.Bullets) != want {
				t.Errorf("%s: error %v, want %d bullets in %q", format, err, want, out)
			}
		}
	})
}

package formats_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"debrief/playbook"
	"debrief/playbook/formats"
)

// jsonDiff compares two JSON texts by value; numbers by their spelling.
func jsonDiff(t testing.TB, want, got string) string {
	t.Helper()
	values := make([]any, 2)
	for i, text := range []string{want, got} {
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&values[i]); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	}
	return cmp.Diff(values[0], values[1])
}

// The fixtures below are written by hand in the form of each generation of the tool; they are not published files.

// kayba06 has the form of versions up to 0.6, before skills, statuses and sources.
const kayba06 = `{
  "bullets": {
    "math-00001": {
      "id": "math-00001",
      "section": "Math Strategies",
      "content": "Carry the one.",
      "helpful": 5,
      "harmful": 0,
      "neutral": 1,
      "created_at": "2025-10-20T09:08:07.123456+00:00",
      "updated_at": "2025-10-21T00:00:00+02:00"
    },
    "math-00003": {
      "id": "math-00003",
      "section": "Math Strategies",
      "content": "Round once.  ",
      "helpful": 0,
      "harmful": 2,
      "neutral": 0,
      "created_at": "2025-10-20T09:08:07.123456+00:00",
      "updated_at": "2025-10-20T09:08:07.123456+00:00"
    }
  },
  "sections": {
    "Math Strategies": [
      "math-00001",
      "math-00003"
    ]
  },
  "next_id": 4
}`

// kayba09 has embeddings, sources and similarity decisions, and unknown fields.
const kayba09 = `{
	"origin": {"tool": "x", "n": 1.50},
	"skills": {
		"billing-00001": {"id": "billing-00001", "section": "billing", "content": "Tax caf\u00e9 <b> last.", "justification": null,
			"evidence": "3 runs", "helpful": 1, "harmful": 0, "neutral": 0, "created_at": "2026-03-18T14:08:22.435257Z",
			"updated_at": "2026-03-18 14:08:22", "embedding": [0.10, -1e-3, 2], "status": "active",
			"sources": [{"trace_uid": "t1", "source_system": "s", "trace_id": "1", "epoch": 2, "later": [null]}], "mine": {"a": [1, 2.0]}},
		"billing-00002": {"id": "billing-00002", "section": "billing", "content": "Ask.", "helpful": 0, "harmful": 3, "neutral": 0,
			"created_at": "2026-03-18T14:08:22.435257+00:00", "updated_at": "2026-03-18T14:08:22.435257+00:00", "embedding": null,
			"status": "invalid", "sources": []}
	},
	"sections": {"billing": ["billing-00001", "billing-00002", "billing-00077"], "gone": []},
	"next_id": 77,
	"similarity_decisions": {"billing-00001,billing-00002": {"decision": "KEEP", "reasoning": "differ", "decided_at": "2026-03-19T00:00:00+00:00",
		"similarity_at_decision": 0.87}}
}
`

// kayba093 has the form of versions from 0.9.3 on, without a count of neutral votes.
const kayba093 = `{"skills":{"s-00001":{"id":"s-00001","section":"s","content":"One.","helpful":1,"harmful":0,"created_at":"2026-05-01T00:00:00+00:00",` +
	`"updated_at":"2026-05-01T00:00:00+00:00","status":"active","sources":[]}},"sections":{"s":["s-00001"]},"next_id":1,"similarity_decisions":{}}`

const swe = `{
  "strategies": {
    "fil-00000": {
      "id": "fil-00000",
      "category": "file_operations",
      "content": "List the folder first.",
      "helpful_count": 4,
      "harmful_count": 1,
      "neutral_count": 2,
      "created_at": "2025-10-09T11:12:13.141516",
      "last_used": "2025-10-10T00:00:00"
    },
    "tes-00001": {
      "id": "tes-00001",
      "category": "testing",
      "content": "Run the tests.",
      "helpful_count": 0,
      "harmful_count": 0,
      "neutral_count": 0,
      "created_at": "2025-10-09T11:12:13.141516",
      "last_used": null
    }
  },
  "next_id": 2
}`

func TestTreesReadAsBullets(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		when, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return when.UTC()
	}
	for _, test := range []struct {
		text   string
		format formats.Format
		want   []*playbook.Bullet
	}{
		{kayba06, formats.Kayba, []*playbook.Bullet{
			{
				ID: "math-00001", Section: "math_strategies", Content: "Carry the one.", Helpful: 5, Neutral: 1,
				CreatedAt: at("2025-10-20T09:08:07.123456Z"), UpdatedAt: at("2025-10-20T22:00:00Z"),
			},
			{
				ID: "math-00003", Section: "math_strategies", Content: "Round once.", Harmful: 2,
				CreatedAt: at("2025-10-20T09:08:07.123456Z"), UpdatedAt: at("2025-10-20T09:08:07.123456Z"),
			},
		}},
		{kayba09, formats.Kayba, []*playbook.Bullet{
			{
				ID: "billing-00001", Section: "billing", Content: "Tax café <b> last.", Helpful: 1,
				CreatedAt: at("2026-03-18T14:08:22.435257Z"), UpdatedAt: at("2026-03-18T14:08:22Z"),
			},
			{
				ID: "billing-00002", Section: "billing", Content: "Ask.", Harmful: 3, Status: playbook.Retired,
				CreatedAt: at("2026-03-18T14:08:22.435257Z"), UpdatedAt: at("2026-03-18T14:08:22.435257Z"),
			},
		}},
		{kayba093, formats.Kayba, []*playbook.Bullet{
			{ID: "s-00001", Section: "s", Content: "One.", Helpful: 1, CreatedAt: at("2026-05-01T00:00:00Z"), UpdatedAt: at("2026-05-01T00:00:00Z")},
		}},
		{swe, formats.SweCLI, []*playbook.Bullet{
			{
				ID: "fil-00000", Section: "file_operations", Content: "List the folder first.", Helpful: 4, Harmful: 1, Neutral: 2,
				CreatedAt: at("2025-10-09T11:12:13.141516Z"), LastUsed: at("2025-10-10T00:00:00Z"),
			},
			{ID: "tes-00001", Section: "testing", Content: "Run the tests.", CreatedAt: at("2025-10-09T11:12:13.141516Z")},
		}},
	} {
		doc := read(t, test.text, "")
		if doc.Format != test.format {
			t.Errorf("got format %s, want %s", doc.Format, test.format)
		}
		checkNotes(t, doc.Notes, nil)
		if diff := cmp.Diff(test.want, doc.Bullets); diff != "" {
			t.Errorf("bullets (-want +got):\n%s", diff)
		}
	}
}

// Each of these files breaks another tool.
func TestUnusualTrees(t *testing.T) {
	t.Parallel()
	skills := func(items, rest string) string { return `{"skills":{` + items + `}` + rest + `}` }
	for _, test := range []struct {
		name, text string
		ids        []playbook.BulletID
		notes      []string
	}{
		{
			name: "a duplicate key", text: skills(`"a-1":{"content":"one"},"a-1":{"content":"two"}`, ""),
			ids: []playbook.BulletID{"a-1", "a-1-2"}, notes: []string{"a-1: duplicate id a-1; renamed to a-1-2"},
		}, {
			name: "invalid ids as keys", text: skills(`"":{"content":"one"},"a]b":{"content":"two"},"b":{"id":"c","content":"three"}`, ""),
			ids:   []playbook.BulletID{"bullet", "a-b", "b"},
			notes: []string{"id is empty; renamed to bullet", "a]b: id contains ']'"},
		}, {
			name: "invalid items", text: skills(`"a":null,"b":{"content":7},"c":{"content":""},"d":{"content":"four"},"e":[1],"f":{}`, ""),
			ids: []playbook.BulletID{"d"},
			notes: []string{
				"b: json: cannot unmarshal number", "e: json: cannot unmarshal array",
				"a: content: is empty", "c: content: is empty", "f: content: is empty",
			},
		}, {
			name: "invalid counts, times and statuses",
			text: skills(`"a":{"content":"one","helpful":-1,"status":"odd","section":null},"b":{"content":"two","harmful":"7"},"c":{"content":"three","created_at":"yesterday"},`+
				`"d":{"content":"four","helpful":2147483648}`, ""),
			ids: []playbook.BulletID{"a", "d"},
			notes: []string{
				"b: json: cannot unmarshal string", "c: invalid time; item skipped", "a: invalid count -1; changed to 0", `a: unknown status "odd"; changed to retired`,
			},
		}, {
			name: "a next_id that is in use", text: skills(`"a-00005":{"content":"one"}`, `,"next_id":3`),
			ids: []playbook.BulletID{"a-00005"},
		}, {
			name: "an invalid next_id", text: skills(`"a":{"content":"one"}`, `,"next_id":"x"`),
			ids: []playbook.BulletID{"a"},
		}, {
			name: "invalid sections", text: skills(`"a":{"content":"one"}`, `,"sections":[]`),
			ids: []playbook.BulletID{"a"},
		}, {
			name: "a megabyte in one string", text: skills(`"a":{"content":"`+strings.Repeat("x", 1<<20)+`"},"b":{"content":"two"}`, ""),
			ids: []playbook.BulletID{"b"}, notes: []string{"a: content: is longer than 65536 bytes"},
		}, {
			name: "control characters, and names that repeat", text: skills(`"a":{"content":"o\u0000n\r\ne\t🧾","content":"x\u0000\r\n## X","n":1,"n":2}`, ""),
			ids: []playbook.BulletID{"a"}, notes: []string{"a: invalid characters were removed"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			doc := read(t, test.text, "")
			var ids []playbook.BulletID
			for _, b := range doc.Bullets {
				ids = append(ids, b.ID)
			}
			if !slices.Equal(ids, test.ids) {
				t.Errorf("got %v, want %v", ids, test.ids)
			}
			checkNotes(t, doc.Notes, test.notes)
		})
	}
}

func TestNewTreesHaveTheFormOfTheTools(t *testing.T) {
	t.Parallel()
	bullets := []*playbook.Bullet{
		{ID: "a-00007", Section: "x", Content: "One.", Helpful: 2, CreatedAt: time.Date(2026, 1, 2, 5, 4, 5, 6000, time.FixedZone("", 2*60*60))},
		{ID: "b-00003", Section: "y", Content: "Two."},
		{ID: "c", Section: "x", Content: "Three."},
	}
	for f, want := range map[formats.Format]string{
		formats.Kayba: `{"skills":{
			"a-00007":{"id":"a-00007","section":"x","content":"One.","helpful":2,"harmful":0,"neutral":0,
				"created_at":"2026-01-02T03:04:05.000006+00:00","embedding":null,"status":"active","sources":[]},
			"b-00003":{"id":"b-00003","section":"y","content":"Two.","helpful":0,"harmful":0,"neutral":0,"embedding":null,"status":"active","sources":[]},
			"c":{"id":"c","section":"x","content":"Three.","helpful":0,"harmful":0,"neutral":0,"embedding":null,"status":"active","sources":[]}},
			"sections":{"x":["a-00007","c"],"y":["b-00003"]},"next_id":7,"similarity_decisions":{}}`,
		formats.SweCLI: `{"strategies":{
			"a-00007":{"id":"a-00007","category":"x","content":"One.","helpful_count":2,"harmful_count":0,"neutral_count":0,
				"created_at":"2026-01-02T03:04:05.000006","last_used":null},
			"b-00003":{"id":"b-00003","category":"y","content":"Two.","helpful_count":0,"harmful_count":0,"neutral_count":0,"last_used":null},
			"c":{"id":"c","category":"x","content":"Three.","helpful_count":0,"harmful_count":0,"neutral_count":0,"last_used":null}},
			"next_id":8}`,
	} {
		out, losses, err := formats.Write(f, "book", bullets)
		if err != nil || len(losses) > 0 || !bytes.HasPrefix(out, []byte("{\n  \"")) {
			t.Errorf("%s: losses %v, error %v", f, losses, err)
		}
		if diff := jsonDiff(t, want, string(out)); diff != "" {
			t.Errorf("%s: values (-want +got):\n%s", f, diff)
		}
	}
}

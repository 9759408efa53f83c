package propose

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"debrief/events/chat"
	"debrief/playbook"
)

func TestParseProposals(t *testing.T) {
	t.Parallel()
	add := playbook.Op{Kind: playbook.Add, Section: "calc", Content: "Gold gets 7 % off."}
	update := playbook.Op{Kind: playbook.Update, Bullet: "a-1", Content: "Gold gets 9 % off."}
	for _, test := range []struct {
		name, text string
		want       []Suggestion
		rejected   []string // parts of the reasons
	}{
		{
			"the form asked for", `{"reasoning":"r","operations":[
			{"type":"ADD","bullet_id":"","source_ids":[],"keep_id":"","section":"Calc","content":" Gold gets 7 % off. ","reason":"","reflections":[1,2]},
			{"type":"UPDATE","bullet_id":"a-1","content":"Gold gets 9 % off.","reflections":[3]}]}`,
			[]Suggestion{{add, []int{1, 2}}, {update, []int{3}}},
			nil,
		},
		{"op, lower case, id in brackets", `{"operations":[{"op":"update","id":"[a-1]","content":"Gold gets 9 % off."}]}`, []Suggestion{{update, nil}}, nil},
		{
			"skill_id and DELETE", `{"operations":[{"type":"DELETE","skill_id":"a-1","reason":"wrong"}]}`,
			[]Suggestion{{playbook.Op{Kind: playbook.Remove, Bullet: "a-1", Reason: "wrong"}, nil}},
			nil,
		},
		{"bullet for bullet_id", `{"operations":[{"type":"REMOVE","bullet":"a-1"}]}`, []Suggestion{{playbook.Op{Kind: playbook.Remove, Bullet: "a-1"}, nil}}, nil},
		{"under update", `{"update":{"reasoning":"r","operations":[{"type":"UPDATE","bullet_id":"a-1","content":"Gold gets 9 % off."}]}}`, []Suggestion{{update, nil}}, nil},
		{"in a fence", "Sure!\n```json\n{\"operations\":[{\"type\":\"UPDATE\",\"bullet_id\":\"a-1\",\"content\":\"Gold gets 9 % off.\"}]}\n```", []Suggestion{{update, nil}}, nil},
		{"a bare operation", `{"type":"UPDATE","bullet_id":"a-1","content":"Gold gets 9 % off."}`, []Suggestion{{update, nil}}, nil},
		{
			"a bare list", `[{"type":"UPDATE","bullet_id":"a-1","content":"Gold gets 9 % off."},{"type":"REMOVE","id":"a-2"}]`,
			[]Suggestion{{update, nil}, {playbook.Op{Kind: playbook.Remove, Bullet: "a-2"}, nil}},
			nil,
		},
		{"null operations", `{"reasoning":"nothing new","operations":null}`, nil, nil},
		{"changes for operations", `{"reasoning":"r","changes":[{"action":"update","id":"a-1","text":"Gold gets 9 % off."}]}`, []Suggestion{{update, nil}}, nil},
		{"second thoughts", `{"operations":[{"type":"REMOVE","bullet_id":"a-1"}]} No: {"operations":[{"type":"UPDATE","bullet_id":"a-1","content":"Gold gets 9 % off."}]}`, []Suggestion{{update, nil}}, nil},
		{
			"what a bullet says already", `{"operations":[{"type":"SAME","bullet_id":"[a-1]","content":"","reflections":[2,1]},{"type":"SAME","reflections":[3]}]}`,
			[]Suggestion{{playbook.Op{Kind: playbook.Confirm, Bullet: "a-1"}, []int{2, 1}}},
			[]string{"invalid bullet_id"},
		},
		{
			"a better text of a bullet", `{"operations":[{"type":"SAME","bullet_id":"a-1","when":"","content":"Gold gets 9 % off.","reflections":[1]}]}`,
			[]Suggestion{{playbook.Op{Kind: playbook.Confirm, Bullet: "a-1", Content: "Gold gets 9 % off."}, []int{1}}},
			nil,
		},
		{
			"a better text that is too long", `{"operations":[{"type":"SAME","bullet_id":"a-1","content":"` + strings.Repeat("x", playbook.MaxContent+1) + `","reflections":[1]}]}`,
			[]Suggestion{{playbook.Op{Kind: playbook.Confirm, Bullet: "a-1"}, []int{1}}},
			[]string{"ignored-field content"},
		},
		{"a vote", `{"operations":[{"type":"TAG","bullet_id":"a-1","metadata":{"helpful":1}}]}`, nil, []string{"invalid TAG"}},
		{
			"counters in metadata", `{"operations":[{"type":"ADD","section":"calc","content":"Gold gets 7 % off.","metadata":{"helpful":99,"harmful":0}}]}`,
			[]Suggestion{{add, nil}},
			[]string{"ignored-field metadata.helpful", "ignored-field metadata.harmful"},
		},
		{
			"counters beside the content", `{"operations":[{"type":"UPDATE","bullet_id":"a-1","content":"Gold gets 9 % off.","helpful":7}]}`,
			[]Suggestion{{update, nil}},
			[]string{"ignored-field helpful"},
		},
		{
			"a merge", `{"operations":[{"type":"MERGE","source_ids":["a-1","a-2","a-1"],"keep_id":"a-2","content":"Both."}]}`,
			[]Suggestion{{playbook.Op{Kind: playbook.Merge, Bullet: "a-2", Sources: []playbook.BulletID{"a-1"}, Content: "Both."}, nil}},
			nil,
		},
		{
			"a merge that keeps the first", `{"operations":[{"type":"MERGE","source_ids":["a-1","a-2"],"content":"Both."}]}`,
			[]Suggestion{{playbook.Op{Kind: playbook.Merge, Bullet: "a-1", Sources: []playbook.BulletID{"a-2"}, Content: "Both."}, nil}},
			nil,
		},
		{
			"lists as texts", `{"operations":[{"type":"MERGE","source_ids":"[a-1], a-2","content":"Both.","reflections":"[1, #3]"}]}`,
			[]Suggestion{{playbook.Op{Kind: playbook.Merge, Bullet: "a-1", Sources: []playbook.BulletID{"a-2"}, Content: "Both."}, []int{1, 3}}},
			nil,
		},
		{"a merge of one", `{"operations":[{"type":"MERGE","source_ids":["a-1"],"content":"Both."}]}`, nil, []string{"invalid source_ids"}},
		{
			"conditions", `{"operations":[{"type":"ADD","section":"calc","when":"When the customer is gold.","content":"Take 7 % off."},
			{"type":"ADD","section":"calc","when":"the customer is gold","content":"When the customer is gold, take 7 % off."},
			{"type":"UPDATE","bullet_id":"a-1","when":"","content":"Gold gets 9 % off."}]}`,
			[]Suggestion{
				{playbook.Op{Kind: playbook.Add, Section: "calc", When: "the customer is gold", Content: "When the customer is gold: Take 7 % off."}, nil},
				{playbook.Op{Kind: playbook.Add, Section: "calc", When: "the customer is gold", Content: "When the customer is gold: take 7 % off."}, nil},
				{update, nil},
			},
			nil,
		},
		{
			"words in place of empty texts", `{"operations":[{"type":"UPDATE","bullet_id":"a-1","when":"Always","section":"N/A","content":"Gold gets 9 % off."},
			{"type":"MERGE","source_ids":["a-1","a-2"],"keep_id":"none","when":"None","content":"Both."},{"type":"ADD","content":"None."}]}`,
			[]Suggestion{
				{update, nil},
				{playbook.Op{Kind: playbook.Merge, Bullet: "a-1", Sources: []playbook.BulletID{"a-2"}, Content: "Both."}, nil},
			},
			[]string{"invalid content"},
		},
		{"an unknown type", `{"operations":[{"type":"EXPLODE","bullet_id":"a-1"},{"bullet_id":"a-1"}]}`, nil, []string{`invalid "EXPLODE"`, `invalid ""`}},
		{"kinds that are not a model's", `{"operations":[{"type":"PIN","bullet_id":"a-1"},{"type":"STATUS","bullet_id":"a-1"}]}`, nil, []string{`invalid "PIN"`, `invalid "STATUS"`}},
		{
			"no content, no bullet", `{"operations":[{"type":"ADD","content":" "},{"type":"UPDATE","content":"x"},{"type":"REMOVE"}]}`, nil,
			[]string{"invalid content", "invalid bullet_id", "invalid bullet_id"},
		},
		{"operations that are none", `{"operations":["ADD",null,7]}`, nil, []string{`invalid "ADD"`, "invalid null", "invalid 7"}},
		{
			"reflections that are not there", `{"operations":[{"type":"ADD","section":"calc","content":"Gold gets 7 % off.","reflections":[0,2,"3",4,2,null]}]}`,
			[]Suggestion{{add, []int{2, 3}}},
			[]string{"ignored-field reflections: 0", "ignored-field reflections: 4", "ignored-field reflections: null"},
		},
		{"a single reflection", `{"operations":[{"type":"ADD","section":"calc","content":"Gold gets 7 % off.","reflections":2}]}`, []Suggestion{{add, []int{2}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseProposals(chat.Reply{Text: test.text, Finish: "stop"}, 3)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.Proposals, test.want) {
				t.Errorf("got %+v, want %+v", got.Proposals, test.want)
			}
			if !slices.EqualFunc(got.Rejected, test.rejected, func(r playbook.Rejection, want string) bool {
				code, name, _ := strings.Cut(want, " ")
				return r.Code == playbook.Reason(code) && (strings.HasPrefix(r.Reason, name) || r.Code == playbook.ReasonInvalid && strings.Contains(r.Reason, name))
			}) {
				t.Errorf("got rejections %+v, want %q", got.Rejected, test.rejected)
			}
		})
	}
}

func TestProposedContentIsCleaned(t *testing.T) {
	t.Parallel()
	s, err := parseProposals(chat.Reply{Text: `{"operations":[{"type":"ADD","section":"## House\n[x] Rules","content":"a\u0000b\r\nc"}]}`}, 0)
	if got := s.Proposals; err != nil || len(got) != 1 || got[0].Op.Section != "house_x_rules" || got[0].Op.Content != "ab\nc" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestParseProposalsInvalidReplies(t *testing.T) {
	t.Parallel()
	for _, r := range []chat.Reply{
		{Text: ""},
		{Text: "Nothing to do."},
		{Text: `{"status":"ok"}`},
		{Text: `{"reasoning":"nothing new"}`}, // asked for again once
		{Text: `{"operations":"none"}`},
		{Text: `{"update":[]}`},
		{Text: `{"reasoning":"r","operations":[{"type":"ADD"`, Finish: "length"},
	} {
		if got, err := parseProposals(r, 1); err == nil {
			t.Errorf("%q: got %+v, want an error", r.Text, got)
		}
	}
}

func FuzzParseProposals(f *testing.F) {
	for _, s := range []string{
		"", `{"operations":[{"type":"ADD","content":"a","reflections":[1]},{"type":"TAG","id":"a","metadata":{"helpful":3}}]}`,
		`{"update":{"update":{"operations":[]}}}`, `{"operations":[{"type":"MERGE","source_ids":[1,null,"a","b"],"content":"x\u0000y"}]}`,
		`{"operations":[{"op":"delete","skill_id":["a"],"metadata":7}]}`,
	} {
		f.Add(s, 3)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		got, err := parseProposals(chat.Reply{Text: text}, n)
		if err != nil && (got.Proposals != nil || got.Rejected != nil) {
			t.Errorf("got %+v beside the error %v", got, err)
		}
		for _, r := range got.Rejected {
			if r.Reason == "" || r.Code == "" {
				t.Errorf("rejected %+v without a reason", r.Op)
			}
		}
		for _, p := range got.Proposals {
			if op := p.Op; op.Helpful+op.Harmful+op.Neutral > 0 {
				t.Errorf("a model moved counters: %+v", op)
			}
			if (p.Op.Bullet == "") != (p.Op.Kind == playbook.Add) {
				t.Errorf("got %+v, want a bullet id for everything but ADD", p.Op)
			}
			for _, i := range p.Reflections {
				if i < 1 || i > n {
					t.Errorf("rests on reflection %d of %d", i, n)
				}
			}
			switch p.Op.Kind {
			case playbook.Add, playbook.Update, playbook.Merge:
				if clean, err := playbook.CleanContent(p.Op.Content); err != nil || clean != p.Op.Content {
					t.Errorf("got content %q, which a bullet cannot hold: %v", p.Op.Content, err)
				}
			case playbook.Remove:
			default:
				t.Errorf("got the kind %q", p.Op.Kind)
			}
		}
	})
}

package proxy

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"debrief/cmd/internal/simulated"
	"debrief/playbook"
)

// wire is the form of a conversation in a model API.
type wire struct {
	path string
	body func(items []any) any
	// reply returns the items of a reply that calls a tool, and the item with the result.
	reply func(body []byte) (items []any, id string, err error)
	tool  func(id string) any
}

var conversationForms = []wire{
	{
		"/v1/chat/completions", func(items []any) any { return map[string]any{"messages": items, "model": "m"} },
		func(body []byte) ([]any, string, error) {
			var r struct {
				Choices []struct{ Message map[string]any }
			}
			err := json.Unmarshal(body, &r)
			if err != nil || len(r.Choices) == 0 {
				return nil, "", fmt.Errorf("no message: %w", err)
			}
			m := r.Choices[0].Message
			return []any{m}, m["tool_calls"].([]any)[0].(map[string]any)["id"].(string), nil
		},
		func(id string) any { return message{"role": "tool", "tool_call_id": id, "content": "a ship"} },
	},
	{
		"/v1/responses", func(items []any) any { return map[string]any{"input": items, "model": "m"} },
		func(body []byte) ([]any, string, error) {
			var r struct{ Output []any }
			err := json.Unmarshal(body, &r)
			if err != nil || len(r.Output) == 0 {
				return nil, "", fmt.Errorf("no output: %w", err)
			}
			return r.Output, r.Output[len(r.Output)-1].(map[string]any)["call_id"].(string), nil
		},
		func(id string) any { return message{"type": "function_call_output", "call_id": id, "output": "a ship"} },
	},
	{
		"/v1/messages", func(items []any) any { return map[string]any{"max_tokens": 100, "messages": items, "model": "m"} },
		func(body []byte) ([]any, string, error) {
			var r struct{ Content []any }
			err := json.Unmarshal(body, &r)
			if err != nil || len(r.Content) == 0 {
				return nil, "", fmt.Errorf("no content: %w", err)
			}
			return []any{message{"role": "assistant", "content": r.Content}}, r.Content[len(r.Content)-1].(map[string]any)["id"].(string), nil
		},
		func(id string) any {
			return message{"role": "user", "content": []any{message{"type": "tool_result", "tool_use_id": id, "content": "a ship"}}}
		},
	},
}

// repeated is a conversation whose advice is repeated.
type repeated struct {
	*side
	wire
	book  playbook.Book
	items []any
}

// send sends the conversation, and returns what the provider got, what was sent, and the reply.
func (r *repeated) send() (got, sent string, reply []byte) {
	r.Helper()
	data, err := json.Marshal(r.body(r.items))
	if err != nil {
		r.Fatal(err)
	}
	header, status, reply := r.post(r.path, data, "X-Debrief-Book", string(r.book), "X-Debrief-Session", "s")
	if status != 200 || header.Get("X-Debrief-Degraded") != "" {
		r.Fatalf("got status %d %s, degraded: %s", status, reply, header.Get("X-Debrief-Degraded"))
	}
	all := r.received()
	return string(all[len(all)-1].Body), string(data), reply
}

// escaped returns a text as it stands in JSON.
func escaped(text string) string {
	data, _ := json.Marshal(text) // a string cannot fail
	return strings.Trim(string(data), `"`)
}

const goodBullet = "Ships are in the yard book."

// The lines of advice in a conversation of session s.
var (
	goodLine    = escaped("- [misc-00001] " + goodBullet + "\n")
	shipLine    = escaped("- [misc-00009] " + shipBullet + "\n")
	headingLine = escaped("- after a failure:\n")
	wentLine    = escaped("  what went wrong: " + shipError + "\n")
	rightLine   = escaped("  what to do: " + shipApproach + "\n")
	insightLine = escaped("  insight: " + shipInsight + "\n")
)

// TestDecisionHoldsInOpenConversations shows a bullet and the texts of a reflection to a conversation, decides, and reads what the provider gets
// in the next call of the run and in the next turn: at most a second later it gets all but the lines that were refused, byte for byte. The
// control hides from the gateway which lines are learned texts, and must fail.
func TestDecisionHoldsInOpenConversations(t *testing.T) {
	t.Parallel()
	s := openSideWith(t, func(r *simulated.Request) simulated.Answer {
		return simulated.Answer{Calls: []simulated.Call{{Name: "look", Arguments: fmt.Sprintf(`{"at": %d}`, len(r.Items))}}}
	})
	const id = playbook.BulletID("misc-00009")
	status := func(now playbook.Status, standing playbook.Standing) playbook.Delta {
		return playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: id, Status: now, Standing: standing}}}
	}
	cover := func(seq uint64) []playbook.Cover {
		return []playbook.Cover{{ID: "r", Seq: seq, Evidence: &playbook.Evidence{Execution: "1-00000000", Session: "s", Source: "agent/ann"}}}
	}
	for n, test := range []struct {
		name    string
		decide  func(seq uint64) playbook.Delta
		refused []string
	}{
		{"another bullet is rejected", func(uint64) playbook.Delta {
			return playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "misc-00010", Section: "others", Content: "Rivers flow.", Status: playbook.Quarantined}}}
		}, nil},
		{"rejected", func(uint64) playbook.Delta { return status(playbook.Retired, playbook.StandingKept) }, []string{shipLine}},
		{"suspended", func(uint64) playbook.Delta { return status(playbook.Quarantined, "") }, []string{shipLine}},
		{"forgotten", func(seq uint64) playbook.Delta {
			d := playbook.Delta{Author: "ann", Forget: &playbook.Selector{Source: "agent"}, ForgetBefore: 2, Covers: []playbook.Cover{{ID: "edit", Seq: seq + 1}}}
			d.Ops = []playbook.Op{{Kind: playbook.Remove, Bullet: id}}
			return d
		}, []string{shipLine, headingLine, wentLine, rightLine, insightLine}},
		{"the reflection's bullet is quarantined", func(seq uint64) playbook.Delta {
			return playbook.Delta{Covers: cover(seq), Ops: []playbook.Op{
				{Kind: playbook.Add, Bullet: "misc-00010", Section: "others", Content: "Rivers flow.", Status: playbook.Quarantined, Support: []int{0}},
			}}
		}, []string{headingLine, wentLine, rightLine, insightLine}},
		{"the reflection becomes a bullet", func(seq uint64) playbook.Delta {
			return playbook.Delta{Covers: cover(seq), Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "misc-00010", Section: "others", Content: "Rivers flow.", Support: []int{0}}}}
		}, nil},
		{"the reflection is decided without a bullet", func(seq uint64) playbook.Delta { return playbook.Delta{Covers: cover(seq)} }, []string{insightLine}},
	} {
		for k, w := range conversationForms {
			if testing.Short() && n != 1+k {
				continue
			}
			wrong := func(control bool) bool {
				s.fixed.Store(control)
				b := playbook.Book(fmt.Sprintf("repeat-%d-%d-%t", n, k, control))
				seq := s.reflected(b, false)
				s.commitAll(b, playbook.Delta{Gate: playbook.GateOff, Ops: []playbook.Op{
					{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: goodBullet},
					{Kind: playbook.Add, Bullet: id, Section: "others", Content: shipBullet},
				}})
				c := &repeated{side: s, wire: w, book: b, items: []any{user(shipQuestion)}}
				first, asked, _ := c.send()
				for _, line := range []string{goodLine, shipLine, headingLine, wentLine, rightLine, insightLine} {
					if !strings.Contains(first, line) {
						t.Fatalf("%s: the first call lacks %s: %s", w.path, line, first)
					}
				}
				_, _, reply := c.send() // the same again
				version := s.commitAll(b, test.decide(seq))
				advised := first
				for _, line := range test.refused {
					advised = strings.Replace(advised, line, "", 1)
				}
				s.context(b, version, "")
				for _, next := range []string{"", "And how many masts has the other ship?"} {
					items, call, err := w.reply(reply)
					if err != nil {
						t.Fatal(err)
					}
					if c.items = append(append(c.items, items...), w.tool(call)); next != "" {
						c.items = append(c.items, user(next))
					}
					// What the provider must get: the client's bytes with the advice of the first turn, without what was refused.
					want := func(sent string) string {
						asked, advised := strings.TrimSuffix(asked, asked[strings.LastIndex(asked, "]"):]), strings.TrimSuffix(advised, advised[strings.LastIndex(advised, "]"):])
						return strings.Replace(sent, asked, advised, 1)
					}
					limit := time.Second
					if control {
						limit = 20 * time.Millisecond
					}
					got, sent, answer := c.send()
					for end := time.Now().Add(limit); !strings.HasPrefix(got, beforeTurn(want(sent), next)) && time.Now().Before(end); time.Sleep(time.Millisecond) {
						got, sent, answer = c.send()
					}
					if reply = answer; !strings.HasPrefix(got, beforeTurn(want(sent), next)) {
						if !control {
							t.Errorf("%s, %s: the provider got\n%s\nwant\n%s", test.name, w.path, got, beforeTurn(want(sent), next))
						}
						return true
					}
				}
				return false
			}
			wrong(false)
			if len(test.refused) > 0 && !wrong(true) {
				t.Errorf("%s, %s: control: a gateway that does not know the lines of advice leaves them out", test.name, w.path)
			}
			s.fixed.Store(false)
		}
	}
}

// beforeTurn returns a body up to the next turn, which has advice of its own.
func beforeTurn(body, next string) string {
	before, _, _ := strings.Cut(body, escaped(next))
	if next == "" {
		return body
	}
	return before
}

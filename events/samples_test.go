package events

import (
	"bytes"
	"reflect"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"debrief/events/chat"
	"debrief/playbook"
)

var noon = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// samples returns one event of every kind with every field set.
func samples() map[Kind]Event {
	pinned := uint64(17)
	const book playbook.Book = "main"
	origin := Origin{Run: "run-1", Epoch: 2, Index: 3, Round: 1, Source: "tau-bench"}
	outcome := Outcome{Score: 0.5, Label: Partial, Feedback: "half of the books", By: "exact"}
	tries := []PreviousRound{{Tags: []BulletTag{{"shr-00001", Helpful}}}}
	usage := chat.Usage{Calls: 2, InputTokens: 300, OutputTokens: 70000, Cost: 0.0125, CachedTokens: 256, Duration: 7 * time.Second}
	execution := ExecutionID("main", "", "task-1", 1)
	handle := NewHandle(4711, execution)
	all := map[Kind]Event{
		KindTask: &Task{
			Book: book, ID: "task-1", Owner: string(Hash("owner")), Session: "s-1", Question: "How many books?", Context: "A shelf.", Purpose: Evaluate,
			Target: "12", Evaluator: "exact", Playbook: &pinned, Origin: origin, PreviousRounds: tries, Tries: 3, Record: true, Created: noon,
		},
		KindExecution: &Execution{
			Book: book, ID: execution, RunID: "task-1", Owner: string(Hash("owner")), Session: "s-1", Question: "How many books?", Context: "A shelf.",
			Target: "12", Purpose: Learn, Origin: origin,
			Steps: []Step{{Speaker: "assistant", Text: "Let me look.", Calls: []ToolCall{{
				Tool: "count", Arguments: `{"what":"books"}`, Output: "12", Outcome: Success, Duration: 40 * time.Millisecond,
			}}}},
			Tries: 2, OtherTry: &Try{Reasoning: "Guessed.", Answer: "13", Outcome: Outcome{Label: Failure}},
			PreviousRounds: tries, Reasoning: "Counted.", Answer: "12", Outcome: outcome, Version: 17,
			Shown: []ShownBullet{{ID: "shr-00001", Wording: WordingOf("Count twice."), Experiment: 3, Why: "pinned"}}, Cited: []playbook.BulletID{"shr-00001"},
			Agent: &Agent{Ref: strings.Repeat("ab", 32), SystemPrompt: "Count only shelves.", Tools: []Tool{{"count", "Counts things."}}},
			Model: "m", PromptSHA256: []byte{1, 2, 3, 0xff}, Usage: usage, Started: noon.Add(time.Nanosecond), Duration: time.Second,
		},
		KindFeedback: &Feedback{
			Book: book, ID: Hash("feedback"), Execution: handle, Outcome: outcome, Target: "12", Created: noon,
		},
		KindReflection: &Reflection{
			Book: book, ID: ReflectionID(execution, "", "v1"), Execution: execution, Handle: handle, Feedback: Hash("feedback"), FeedbackSeq: 4712,
			Reflector: "v1", Origin: origin, Question: "How many", Outcome: outcome, Reasoning: "r", ErrorIdentification: "e",
			RootCauseAnalysis: "c", CorrectApproach: "a", KeyInsight: "i", Tags: []BulletTag{{"shr-00001", Helpful}},
			Lessons: []Lesson{{Section: "others", Content: "Count thrice."}},
			Model:   "m", Usage: usage, Created: noon,
		},
		KindEdit: &Edit{
			Book: book, ID: Hash("edit"), Author: "ann", Reason: "typo", Ops: []playbook.Op{op()}, Gate: playbook.GateStrict, Gather: []Handle{handle}, Created: noon,
			Evidence: []playbook.Evidence{{Execution: string(handle)}},
		},
		KindDead: &DeadLetter{
			Book: book, Role: RoleReflector, Code: DeadError, Reason: "gave up", Attempts: 5, Stream: StreamExecutions, Seq: 4711,
			Subject: "debrief.execution.main", Header: map[string][]string{HeaderSchema: {"1"}, "A": {"b", "c"}}, Data: []byte{0xc1}, Time: noon,
		},
	}
	for _, e := range all {
		complete(reflect.ValueOf(e))
	}
	all[KindEdit].(*Edit).Redact = redacted()
	for _, o := range []*Outcome{&all[KindExecution].(*Execution).Outcome, &all[KindFeedback].(*Feedback).Outcome, &all[KindReflection].(*Reflection).Outcome} {
		*o = o.Complete() // a violation is a failure
	}
	return all
}

func op() playbook.Op {
	op := playbook.Op{Kind: playbook.Tag, Bullet: "shr-00001", Helpful: 1, Harmful: 1, Neutral: 1, Support: []int{0, 1, 0}}
	complete(reflect.ValueOf(&op))
	return op
}

func delta() *playbook.Delta {
	d := &playbook.Delta{
		Gate: playbook.GateStrict, Version: 300, PrevSeq: 70000, PrevChain: []byte{0xab, 0xcd},
		Covers: []playbook.Cover{{ID: string(Hash("a")), Seq: 13}, {ID: string(Hash("b")), Seq: 1 << 40}},
		Ops:    []playbook.Op{op()}, Rejected: []playbook.Rejection{{Op: op(), Reason: "no such bullet"}},
	}
	complete(reflect.ValueOf(d))
	d.Redacted = redacted()
	d.More = false // only the last delta of a change has covers
	d.Ops[0].PutBullet, d.Rejected[0].Op.PutBullet = bullet(), nil
	return d
}

func redacted() []playbook.RedactedVersion {
	return []playbook.RedactedVersion{{Version: 200, Sum: bytes.Repeat([]byte{0xab}, 32), ErasedSelector: 150}}
}

func redaction() *Redaction {
	return &Redaction{Seq: 70001, Chain: bytes.Repeat([]byte{0xcd}, 32), Delta: *delta()}
}

func bullet() *playbook.Bullet {
	b := &playbook.Bullet{ID: "shr-00001", Helpful: 1000, Harmful: 2, Status: playbook.Candidate}
	complete(reflect.ValueOf(b))
	return b
}

// complete sets each zero field, so that these tests also encode fields that are added later.
func complete(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		complete(v.Elem())
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			if v.IsZero() {
				v.Set(reflect.ValueOf(noon))
			}
			return
		}
		if v.Type() == reflect.TypeFor[ShownBullet]() {
			return // its text is not stored
		}
		if v.Type() == reflect.TypeFor[playbook.Judge]() {
			v.Set(reflect.ValueOf(playbook.Judge{Name: "judge/model/1", Right: 30, Wrong: 30, FalseFailures: 3, FalseSuccesses: 6}))
			return
		}
		for i := range v.NumField() {
			isStored := v.Type().Field(i).Tag.Get("msgpack") != "-"
			if v.Type().Field(i).IsExported() && isStored {
				complete(v.Field(i))
			}
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		for i := range v.Len() {
			complete(v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			complete(v.Index(i))
		}
	default:
		if !v.IsZero() {
			return
		}
		switch v.Kind() {
		case reflect.String:
			switch v.SetString("text"); v.Type() {
			case reflect.TypeFor[playbook.Standing]():
				v.SetString(string(playbook.StandingNew))
			case reflect.TypeFor[playbook.Review]():
				v.SetString(string(playbook.ReviewFirst))
			case reflect.TypeFor[playbook.Share]():
				v.SetString("5%")
			}
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Float32, reflect.Float64:
			v.SetFloat(0.5)
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			v.SetInt(1)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			v.SetUint(1)
		default:
			panic("samples: no value for a " + v.Type().String())
		}
	}
}

// sameEvent compares events, with an empty list equal to nil, as in the encoding.
var sameEvent = cmp.Options{
	cmp.AllowUnexported(Task{}, Execution{}, Feedback{}, Reflection{}, Edit{}, DeadLetter{}),
	cmpopts.EquateEmpty(), cmpopts.EquateNaNs(),
}

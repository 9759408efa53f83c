package worlds

import (
	"reflect"
	"testing"
)

func TestBullets(t *testing.T) {
	t.Parallel()
	got := ReadBullets("Intro\n- [a-1] first\n  second line (helpful=1, harmful=2)\n\n- [b-2] other\nend\n")
	want := []Bullet{{ID: "a-1", Text: "first\nsecond line"}, {ID: "b-2", Text: "other"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReadExecution(t *testing.T) {
	t.Parallel()
	user := "Outcome: failure (score 0.00 of 1). The expected answer is not known.\n" +
		"\n[[begin question 0123456789abcdef]]\nwhich one?\n[[end question 0123456789abcdef]]\n" +
		"\n[[begin bullets shown 0123456789abcdef]]\n{\"id\":\"a-1\",\"content\":\"x\",\"cited\":true}\n{\"id\":\"b\",\"content\":\"y\"}\n[[end bullets shown 0123456789abcdef]]\n" +
		"\n[[begin trace 0123456789abcdef]]\nstep 1, assistant: hm\n  call pay(a (b)) [error] -> no\nmore\nstep 2, assistant\n  call get(c) -> yes\n[[end trace 0123456789abcdef]]\n"
	e := ReadExecution([]Message{{Speaker: "system", Text: "instructions"}, {Speaker: "user", Text: user}})
	if e.Outcome != "failure" || e.Question != "which one?" || len(e.Shown) != 2 || !e.Shown[0].Cited || e.Shown[1].Cited {
		t.Errorf("got %+v", e)
	}
	want := []ToolCall{{"pay", "no\nmore", true}, {"get", "yes", false}}
	if got := ReadCalls(e.Trace); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestReadCuration(t *testing.T) {
	t.Parallel()
	c := ReadCuration([]Message{{Speaker: "user", Text: "# Playbook, 1 of its 1 bullets\n\n- [a] text (helpful=0, harmful=0)\n\n" +
		"{\"rejected_text\":\"old\",\"reason\":\"no\"}\n{\"number\":2,\"insight\":\"new\",\"also\":[\"more\"]}\n"}})
	if len(c.Bullets) != 1 || c.Bullets[0].Text != "text" || len(c.Rejected) != 1 || len(c.Insights) != 1 || len(c.Insights[0].Texts()) != 2 {
		t.Errorf("got %+v", c)
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	q, c := ReadTask([]Message{{Speaker: "user", Text: "# Context\n\nback\n\n# Task\n\nask\n"}})
	if q != "ask" || c != "back" {
		t.Errorf("got %q, %q", q, c)
	}
}

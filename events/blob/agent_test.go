package blob_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

// policy is a system prompt of the size of a real one.
var policy = "Never cancel a flight without the consent of the customer.\n" + strings.Repeat("Be polite.\n", 600)

// TestAgentIsStoredOnce stores the same description for many runs, and reads it in another process.
func TestAgentIsStoredOnce(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	s := blob.New(conn.JetStream())
	want := &events.Agent{SystemPrompt: strings.TrimSpace(policy), Tools: []events.Tool{{Name: "cancel", Description: "Cancels a flight."}}}
	given := *want
	var ref string
	for range 100 {
		a, err := s.PutAgent(t.Context(), &given)
		if err != nil {
			t.Fatal(err)
		}
		if a.Ref == "" || a.SystemPrompt != "" || a.Tools != nil || ref != "" && a.Ref != ref {
			t.Fatalf("got %+v, want the name %q alone", a, ref)
		}
		ref = a.Ref
	}
	if diff := cmp.Diff(want, &given); diff != "" {
		t.Errorf("PutAgent has changed its argument:\n%s", diff)
	}
	stream, err := conn.JetStream().Stream(t.Context(), blob.Stream)
	if err != nil {
		t.Fatal(err)
	}
	if n := stream.CachedInfo().State.Msgs; n != 2 { // a chunk and its description
		t.Errorf("the object store has %d messages, want 2", n)
	}
	got, err := blob.New(conn.JetStream()).GetAgent(t.Context(), &events.Agent{Ref: ref})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if again, err := s.PutAgent(t.Context(), &events.Agent{Ref: ref}); err != nil || again.Ref != ref {
		t.Errorf("a stored description: got %+v, %v", again, err)
	}
}

// TestAgentWithoutSecretsInLimitedLength stores descriptions of all sizes.
func TestAgentWithoutSecretsInLimitedLength(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	s := blob.New(conn.JetStream())
	const secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
	for name, test := range map[string]struct {
		agent  *events.Agent
		inline bool
	}{
		"nothing":          {&events.Agent{}, false},
		"a short one":      {&events.Agent{SystemPrompt: "Token " + secret}, true},
		"a long one":       {&events.Agent{SystemPrompt: policy + "Token " + secret}, false},
		"a secret of tool": {&events.Agent{SystemPrompt: policy, Tools: []events.Tool{{Name: "push", Description: "Uses " + secret}}}, false},
		"a secret at the cut": {&events.Agent{
			SystemPrompt: strings.Repeat("a ", 32<<10-10) + secret + " b",
			Tools:        []events.Tool{{Name: strings.Repeat("a ", 118) + secret, Description: strings.Repeat("a ", 1<<10-10) + secret}},
		}, false},
		"a huge one": {&events.Agent{SystemPrompt: strings.Repeat(policy, 1000), Tools: make([]events.Tool, 10_000)}, false},
	} {
		stored, err := s.PutAgent(t.Context(), test.agent)
		if err != nil {
			t.Fatal(err)
		}
		if name == "nothing" {
			if stored != nil {
				t.Errorf("%s: got %+v, want nil", name, stored)
			}
			continue
		}
		if isInline := stored.Ref == ""; isInline != test.inline {
			t.Errorf("%s: got the name %q", name, stored.Ref)
		}
		got, err := s.GetAgent(t.Context(), stored)
		if err != nil {
			t.Fatal(err)
		}
		text := got.SystemPrompt
		for _, tool := range got.Tools {
			text += tool.Name + tool.Description
		}
		if strings.Contains(text, secret[:12]) || strings.Contains(name, "secret") && !strings.Contains(text, "[redacted: ") {
			t.Errorf("%s: the secret is stored", name)
		}
		if len(got.SystemPrompt) > 65<<10 || len(got.Tools) > 256 {
			t.Errorf("%s: got %d bytes and %d tools", name, len(got.SystemPrompt), len(got.Tools))
		}
	}
}

// TestAgentThatIsGone reads descriptions that do not exist.
func TestAgentThatIsGone(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	s := blob.New(conn.JetStream())
	unreadable, err := s.Put(t.Context(), "", []byte("\xc1"))
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]error{strings.Repeat("ab", 32): blob.ErrExpired, unreadable: blob.ErrInvalid} {
		if a, err := s.GetAgent(t.Context(), &events.Agent{Ref: ref}); !errors.Is(err, want) || !blob.IsGone(err) || a != nil {
			t.Errorf("got %+v and error %v, want %v", a, err, want)
		}
		e := &events.Execution{RunID: "1", Agent: &events.Agent{Ref: ref}}
		if err := conn.Events.LoadAgent(t.Context(), e); err != nil || e.Agent != nil {
			t.Errorf("got %+v and error %v, want an execution without a description", e.Agent, err)
		}
	}
}

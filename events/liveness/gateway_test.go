package liveness

import (
	"errors"
	"slices"
	"testing"
)

// TestGatewayTurnsYellow: a gateway is yellow while calls pass and none is captured.
func TestGatewayTurnsYellow(t *testing.T) {
	t.Parallel()
	c := new(Calls)
	if c.health() != nil {
		t.Error("a gateway without calls has a health")
	}
	c.Add("")
	for range maxUnseen - 1 {
		c.Add("path")
	}
	if g := c.health(); g.Level != Green || g.Captured != 1 || len(g.Passed) != 1 || g.Passed[0] != (Passed{"path", maxUnseen - 1}) {
		t.Errorf("got %+v", g)
	}
	c.Add("websocket")
	if g := c.health(); g.Level != Yellow || len(g.Problems) != 1 || g.Problems[0] != Unseen {
		t.Errorf("got %+v", g)
	}
	if c.Add(""); c.health().Level != Green {
		t.Error("a captured call did not end the alarm")
	}
}

// A gateway without its tokens file refuses every request, so no call shows that it does not work.
func TestGatewayReportsTokensFile(t *testing.T) {
	t.Parallel()
	valid, err := 2, error(nil)
	c := new(Calls)
	c.WatchTokens(func() (int, error) { return valid, err })
	if g := c.health(); g != nil {
		t.Errorf("a valid file without calls: got %+v", g)
	}
	err = errors.New("tokens file: invalid")
	if g := c.health(); g == nil || g.Level != Yellow || !slices.Equal(g.Problems, []Problem{Tokens}) {
		t.Errorf("an invalid file: got %+v, want yellow", g)
	}
	valid = 0
	if g := c.health(); g == nil || g.Level != Red || !slices.Equal(g.Problems, []Problem{Tokens}) {
		t.Errorf("a missing file: got %+v, want red", g)
	}
}

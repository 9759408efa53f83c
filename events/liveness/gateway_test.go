package liveness

import "testing"

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

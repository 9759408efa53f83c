package api

import (
	"debrief/cmd/internal/api/tokens"
	"debrief/playbook"
)

// Identity is the token of a request.
type Identity struct {
	TokenItem
	Reading bool `json:"reading,omitempty" doc:"The server has just started and reads the stored data: requests can take longer, and numbers grow."`
	Local   bool `json:"local,omitempty" doc:"The server requires no token, and listens on the loopback only."`
}

// identityRoute returns the token of the request.
func identityRoute() route {
	r := get("/token", "getToken", "Return the name, the scopes and the playbooks of the token of the request.", func(c *call) (*Identity, error) {
		isReading := c.handler.index != nil && c.handler.index.Reading()
		return &Identity{TokenItem: newTokenItem(c.token), Reading: isReading, Local: c.handler.tokens == nil}, nil
	})
	r.scope = ""
	return r
}

func newTokenItem(t *tokens.Token) TokenItem {
	item := TokenItem{Name: t.Name, Scopes: t.Scopes, Books: t.Books, Proxies: t.ProxyNames()}
	if item.Books == nil {
		item.Books = []playbook.Book{}
	}
	return item
}

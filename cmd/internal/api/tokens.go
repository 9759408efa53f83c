package api

import (
	"debrief/cmd/internal/api/tokens"
	"debrief/playbook"
)

// TokenItem is a token without its hash.
type TokenItem struct {
	Name   string          `json:"name"`
	Scopes []tokens.Scope  `json:"scopes"`
	Books  []playbook.Book `json:"books" doc:"Playbooks that it permits; empty: all."`
	// Proxies has the addresses of the proxies whose persons have this access.
	Proxies []string `json:"proxies,omitempty" doc:"Addresses of proxies that name a person in X-Debrief-Person; missing: the token is that of one caller."`
}

func newTokenItem(t *tokens.Token) TokenItem {
	item := TokenItem{Name: t.Name, Scopes: t.Scopes, Books: t.Books, Proxies: t.ProxyNames()}
	if item.Books == nil {
		item.Books = []playbook.Book{}
	}
	return item
}

// tokenRoute lists the tokens.
func tokenRoute() route {
	r := get("/tokens", "listTokens", "List the names, scopes and playbooks of the tokens.", listTokens)
	r.scope, r.query = tokens.Operate, pageParameters
	return r
}

func listTokens(c *call) (*Page[TokenItem], error) {
	all := []TokenItem{}
	for _, t := range c.handler.tokens.List() {
		all = append(all, newTokenItem(t))
	}
	return paginate(c, all, func(t TokenItem) string { return t.Name })
}

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

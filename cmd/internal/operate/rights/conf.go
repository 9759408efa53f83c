package rights

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
)

// Tenant is a tenant of a server with the public key of each user.
type Tenant struct {
	Name string
	Keys map[string]string // by name of the user
}

// accountName returns the name of a user's account. The name of a tenant has no slash, so the names are unique.
func accountName(tenant, user string) string {
	if user == events.UserOperator {
		return tenant
	}
	return tenant + "/" + user
}

// receivers returns the other users whose accounts receive what a user publishes with a grant.
func (g Grant) receivers(user string) []string {
	accounts := g.Accounts
	if accounts == nil {
		accounts = []string{events.UserOperator}
	}
	return slices.DeleteFunc(slices.Clone(accounts), func(name string) bool { return name == user })
}

// exports returns the subjects that the account of a user exports, in the order of the list. It leaves out a subject that another one
// covers, because the server chooses between two matching exports at random.
func exports(user string) (subjects []string) {
	for _, u := range Users() {
		for _, g := range u.Publish {
			covered := func(by string) bool { return Covers(by, g.Subject) }
			if slices.Contains(g.receivers(u.Name), user) && !slices.ContainsFunc(subjects, covered) {
				subjects = slices.DeleteFunc(subjects, func(s string) bool { return Covers(g.Subject, s) })
				subjects = append(subjects, g.Subject)
			}
		}
	}
	return subjects
}

// Covers reports whether a pattern matches a subject, or every subject that another pattern matches.
func Covers(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range p {
		switch {
		case token == ">":
			return len(s) > i
		case i >= len(s), s[i] == ">":
			return false
		case token != "*" && token != s[i]:
			return false
		}
	}
	return len(p) == len(s)
}

const confBegin = `# The rights of all users, and the tenants with the public keys of their users. Written by 'debrief credentials DIR', which
# writes it again for a new version of the program, with the same keys: changes by hand are lost. The limits of a tenant are
# in limits.conf.
#
# A tenant's streams and its operator are in the account of its name. Each role is in an account that imports the subjects
# of its rights, so that the server replaces the reply subject of each request: no user writes anywhere through an answer.
# The operator's account is the exception. Guard the operator's key.

include "../limits.conf"
`

// Conf returns the part of a server's configuration with the rights and the tenants.
func Conf(tenants []Tenant) string {
	var b strings.Builder
	b.WriteString(confBegin)
	for _, u := range Users() {
		u.write(&b)
	}
	for _, u := range Users() {
		writeExports(&b, u.Name)
	}
	b.WriteString("\naccounts: {\n")
	for _, t := range tenants {
		for _, u := range Users() {
			t.write(&b, u)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// write writes the rights of a user.
func (u *User) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s_rights: {\n  publish: {\n    allow: [\n", u.Name)
	writeGrants(b, "      ", u.Publish)
	b.WriteString("    ]\n")
	if len(u.Deny) > 0 {
		fmt.Fprintf(b, "    deny: [\"%s\"]\n", strings.Join(u.Deny, `", "`))
	}
	b.WriteString("  }\n  subscribe: { allow: [\n")
	writeGrants(b, "    ", u.Subscribe)
	b.WriteString("  ] }\n}\n")
}

func writeGrants(b *strings.Builder, indent string, grants []Grant) {
	for _, g := range grants {
		fmt.Fprintf(b, "%s\"%s\" # %s\n", indent, g.Subject, g.Why)
	}
}

// responseThreshold limits the time for which the server routes the replies to a request with several replies. It must be
// longer than the timeout of a pull. Until then each request takes about 1.4 kB of the server's memory.
const responseThreshold = "10s"

// writeExports writes the exports of a user's account. They name no importing accounts, because an account imports only what this
// configuration says.
func writeExports(b *strings.Builder, user string) {
	subjects := exports(user)
	if len(subjects) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s_exports: [\n", user)
	for _, s := range subjects {
		several := ""
		if severalAnswers(s) {
			several = fmt.Sprintf(", response_type: stream, response_threshold: %q", responseThreshold)
		}
		fmt.Fprintf(b, "  {service: \"%s\"%s}\n", s, several)
	}
	b.WriteString("]\n")
}

// write writes the account of a user.
func (t *Tenant) write(b *strings.Builder, u User) {
	fmt.Fprintf(b, "  %q: {\n    users: [{nkey: %s, permissions: $%s_rights}]\n", accountName(t.Name, u.Name), t.Keys[u.Name], u.Name)
	if u.Name == events.UserOperator {
		b.WriteString("    jetstream: $tenant_limits\n")
	}
	if len(exports(u.Name)) > 0 {
		fmt.Fprintf(b, "    exports: $%s_exports\n", u.Name)
	}
	b.WriteString("    imports: [\n")
	for _, g := range u.Publish {
		for _, receiver := range g.receivers(u.Name) {
			fmt.Fprintf(b, "      {service: {account: %q, subject: \"%s\"}}\n", accountName(t.Name, receiver), g.Subject)
		}
	}
	b.WriteString("    ]\n  }\n")
}

// tenantBegin matches what Tenant.write writes first. Its groups are the tenant, the suffix of an account of a role, the key and the user.
var (
	tenantBegin = regexp.MustCompile(`(?m)^  "([A-Za-z0-9_-]+)(/[a-z]+)?": \{\n    users: \[\{nkey: (U[A-Z0-9]+), permissions: \$([a-z]+)_rights\}\]$`)
	errNoConf   = errors.New("was not written by 'debrief credentials': move it and the keys away, and start again")
)

// Tenants returns the tenants in a configuration that Conf wrote.
func Tenants(conf string) (tenants []Tenant, err error) {
	for _, m := range tenantBegin.FindAllStringSubmatch(conf, -1) {
		name := m[1]
		key := m[3]
		user := m[4]
		i := slices.IndexFunc(tenants, func(t Tenant) bool { return t.Name == name })
		if i < 0 {
			i = len(tenants)
			tenants = append(tenants, Tenant{name, map[string]string{}})
		}
		tenants[i].Keys[user] = key
	}
	for _, t := range tenants {
		for _, u := range Users() {
			if t.Keys[u.Name] == "" {
				return nil, fmt.Errorf("tenant %s has no user %s: the file %w", t.Name, u.Name, errNoConf)
			}
		}
	}
	if len(tenants) == 0 {
		return nil, errNoConf
	}
	return tenants, nil
}

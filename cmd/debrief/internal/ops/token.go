package ops

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"

	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/playbook"
)

// Token groups the commands on the tokens of the gateway.
type Token struct {
	New  tokenNew  `cmd:"" help:"Add a token to a file and print its secret once." example:"ann --file tokens.yaml --scope read,review --books support"`
	List tokenList `cmd:"" help:"List the tokens of a file, without secrets." example:"--file tokens.yaml"`

	Revoke tokenRevoke `cmd:"" help:"Remove a token from a file." example:"ann --file tokens.yaml"`
}

func (*Token) Help() string {
	return `A token names a caller of the gateway and limits it to scopes and playbooks. The file contains only hashes. A gateway reads a
changed file within a second: it then refuses a revoked token, and ends its open streams of events.

  context   contexts, and calls of models through the gateway
  report    executions, feedback and tasks
  read      everything that can be read
  review    changes of playbooks, with the token's name as author
  operate   dead letters, the gate and erasures

A token with --proxies is for a proxy that authenticates persons, for example by OIDC. Its requests must come from these addresses, and
name the person, who is the author of changes, in the header X-Debrief-Person.

Examples:

  debrief token new agent --file tokens.yaml
  debrief token new ann --file tokens.yaml --scope read,review --books support
  debrief token list --file tokens.yaml
  debrief token revoke ann --file tokens.yaml
  debrief up --http 0.0.0.0:4280 --tokens tokens.yaml`
}

// tokenNew adds a token.
type tokenNew struct {
	Name       string         `arg:"" help:"Name of the token: the author of changes made with it."`
	File       string         `help:"Tokens file; created if it is missing." type:"path" required:"" placeholder:"FILE"`
	Scope      []tokens.Scope `help:"Scope of the token; separate several by commas." default:"context,report" placeholder:"SCOPE"`
	Books      []string       `help:"Playbooks that the token may use; separate several by commas. Default: all." placeholder:"NAME"`
	Proxies    []string       `help:"Addresses of proxies that authenticate persons; then each request must name one in X-Debrief-Person." placeholder:"ADDRESS"`
	SecretFile string         `help:"Write the secret to this new file, and do not print it." type:"path" placeholder:"FILE"`
	JSON       bool           `help:"Print one JSON document."`
}

func (t *tokenNew) Run() error {
	books, proxies, err := t.parse()
	if err != nil {
		return err
	}
	secret, err := t.add(books, proxies)
	if err != nil {
		return err
	}
	if t.SecretFile != "" {
		secret = "" // not printed
	}
	if t.JSON {
		return cli.WriteJSON(term.Stdout, struct {
			Name   string `json:"name"`
			File   string `json:"file"`
			Secret string `json:"secret,omitempty"` // only here, and not with --secret-file
		}{t.Name, t.File, secret})
	}
	if secret == "" {
		term.Printf("token %s is in %s, its secret in %s\n", t.Name, t.File, t.SecretFile)
		return nil
	}
	term.Printf("%s\n", secret)
	term.Fprintf(term.Stderr, "token %s is in %s; this secret is shown once\n", t.Name, t.File)
	return nil
}

// parse returns the playbooks and the proxies of the flags.
func (t *tokenNew) parse() (books []playbook.Book, proxies []netip.Prefix, err error) {
	for _, name := range t.Books {
		b, err := cli.ParseBook(name)
		if err != nil {
			return nil, nil, err
		}
		books = append(books, b)
	}
	for _, text := range t.Proxies {
		p, err := tokens.ParseProxy(text)
		if err != nil {
			return nil, nil, program.Exit(program.ExitUsage, fmt.Errorf("--%w", err)) // the error begins with "proxies:"
		}
		proxies = append(proxies, p)
	}
	return books, proxies, nil
}

// add adds the token to the tokens file, and its secret to the file of --secret-file. It creates that file first: if it fails, no token has a
// lost secret.
func (t *tokenNew) add(books []playbook.Book, proxies []netip.Prefix) (secret string, err error) {
	if t.SecretFile == "" {
		return t.addToFile(books, proxies)
	}
	out, err := os.OpenFile(t.SecretFile, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", program.Exit(program.ExitRefused, fmt.Errorf("--secret-file: %w", err))
	}
	secret, err = t.addToFile(books, proxies)
	if err != nil {
		_ = out.Close()
		_ = os.Remove(t.SecretFile)
		return "", err
	}
	_, err = fmt.Fprintln(out, secret)
	if err = errors.Join(err, out.Close()); err != nil { // the secret is lost: remove the token
		return "", fmt.Errorf("--secret-file: %w", errors.Join(err, os.Remove(t.SecretFile), tokens.Remove(t.File, t.Name)))
	}
	return secret, nil
}

// addToFile adds the token to the tokens file, and returns its secret.
func (t *tokenNew) addToFile(books []playbook.Book, proxies []netip.Prefix) (secret string, err error) {
	secret, err = tokens.Add(t.File, t.Name, t.Scope, books, proxies...)
	if errors.Is(err, tokens.ErrExists) {
		return "", program.Exit(program.ExitRefused, err)
	}
	return secret, program.Exit(program.ExitUsage, err)
}

// tokenList lists the tokens of a file.
type tokenList struct {
	File string `help:"Tokens file." type:"path" required:"" placeholder:"FILE"`
	JSON bool   `help:"Print one JSON document."`
}

// listedToken is a token in the JSON of the list.
type listedToken struct {
	Name    string          `json:"name"`
	Scopes  []tokens.Scope  `json:"scopes"`
	Books   []playbook.Book `json:"books,omitempty"` // empty: all
	Proxies []string        `json:"proxies,omitempty"`
}

func (t *tokenList) Run() error {
	set, err := tokens.Load(t.File, nil)
	if err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	if t.JSON {
		list := []listedToken{}
		for _, token := range set.List() {
			list = append(list, listedToken{Name: token.Name, Scopes: token.Scopes, Books: token.Books, Proxies: token.ProxyNames()})
		}
		return cli.WriteJSON(term.Stdout, list)
	}
	return term.PrintTable(term.Stdout, "token\tscopes\tplaybooks\tproxies", set.List(), func(w io.Writer, token *tokens.Token) {
		books := "all"
		if len(token.Books) > 0 {
			books = term.Join(token.Books)
		}
		proxies := "–"
		if len(token.Proxies) > 0 {
			proxies = term.Join(token.ProxyNames())
		}
		term.Fprintf(w, "%s\t%s\t%s\t%s\n", token.Name, term.Join(token.Scopes), books, proxies)
	})
}

// tokenRevoke removes a token.
type tokenRevoke struct {
	Name string `arg:"" help:"Name of the token."`
	File string `help:"Tokens file." type:"path" required:"" placeholder:"FILE"`
	JSON bool   `help:"Print one JSON document."`
}

func (t *tokenRevoke) Run() error {
	err := tokens.Remove(t.File, t.Name)
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		return program.Exit(program.ExitRefused, err)
	case err != nil:
		return program.Exit(program.ExitUsage, err)
	case t.JSON:
		return cli.WriteJSON(term.Stdout, struct {
			Revoked string `json:"revoked"`
			File    string `json:"file"`
		}{t.Name, t.File})
	}
	term.Printf("token %s is revoked: gateways that use %s refuse it within a second\n", t.Name, t.File)
	return nil
}

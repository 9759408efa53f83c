package auditor

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// executions are the pages of the executions of a playbook.
func (c *Console) executions(p Page, book string, rest []string, q url.Values) {
	if len(rest) > 0 {
		c.execution(p, book, c.runOf(rest[0]))
		return
	}
	is := func(parameter, value string) bool { return q.Get(parameter) == "" || q.Get(parameter) == value }
	all := slices.DeleteFunc(c.ofBook(book), func(r *run) bool {
		before, err := time.Parse(time.RFC3339, q.Get("before"))
		isBefore := err != nil || r.Started.Before(before)
		isDoubted := q.Get("doubted") == "" || r.Doubted
		return !isBefore || !isDoubted || !is("task", r.Origin.Task) || !is("outcome", cmp.Or(r.Outcome.label(), "unknown")) || !is("session", r.Session)
	})
	p.executions("", book, all[:min(50, len(all))])
}

// executions adds the rows of a table of executions.
func (p Page) executions(heading, book string, all []*run) {
	for _, r := range all {
		row := heading + book + "/executions/" + r.Handle + " | "
		p.nonzero(row+"Outcome", r.score())
		p.add(row+"Bullets shown", float64(len(r.Shown)))
		p.add(row+"Cited", float64(len(r.Cited)))
		p.nonzero(row+"Version", float64(r.Version))
	}
}

// execution is the page of one execution.
func (c *Console) execution(p Page, book string, r *run) {
	for _, s := range r.Steps {
		for _, call := range s.Calls {
			if call.Took > 0 {
				p.add("Steps | call", float64(call.Took.Milliseconds()))
			}
		}
	}
	p.facts(r)
	if r.Built != nil {
		p.manifest(r.Built)
	}
	for _, last := range c.books[book].changes {
		c.learnedFrom(p, book, r, last)
	}
}

// facts adds the facts of an execution.
func (p Page) facts(r *run) {
	const heading = "Facts | "
	p.nonzero(heading+"verdict", r.score())
	if named := r.stored.Scores; named != nil {
		for _, s := range *named {
			p.add(heading+"named score", s.Score)
		}
	}
	p.add(heading+"Playbook", float64(r.Version))
	p.add(heading+"Shown", ints(len(r.Shown), len(r.Cited))...)
	if r.Usage.Input > 0 {
		tokens := ints(r.Usage.Input, r.Usage.Output)
		if r.Usage.Cached > 0 {
			tokens = append(tokens, float64(r.Usage.Cached))
		}
		p.add(heading+"Tokens", tokens...)
	}
	p.nonzero(heading+"Cost", r.Usage.Dollars)
	p.nonzero(heading+"Duration", inUnit(time.Duration(r.Took)))
}

// manifest adds the parts of the context that a model received.
func (p Page) manifest(m *manifest) {
	const heading = "What the model received | "
	p.add(heading+"tokens", ints(m.Tokens, m.Limit)...)
	var omitted []float64
	for _, o := range m.Omitted {
		p.add(heading+o.Kind+", omitted | Reference", float64(o.Count))
		p.add(heading+o.Kind+", omitted | Tokens", float64(o.Tokens))
		omitted = append(omitted, float64(o.Count))
	}
	p.add(heading+"omitted", omitted...)
	for _, w := range m.Warnings {
		_, shape := ParseNumbers(strings.ToUpper(w[:1]) + w[1:])
		p.add("Warnings | "+shape, valuesOf(w)...)
	}
	for _, x := range m.Parts {
		p.nonzero(heading+x.Kind+" | Reference", float64(x.Count))
		p.add(heading+x.Kind+" | Tokens", float64(x.Tokens))
	}
}

// learnedFrom adds the operations that were learned from an execution, of the change that ends with a delta.
func (c *Console) learnedFrom(p Page, book string, r *run, last *change) {
	var ours []int // the covers of the execution, as indexes
	for i, s := range last.Covers {
		if s.Evidence == nil || s.Evidence.Execution != r.Handle {
			continue
		}
		ours = append(ours, i)
		if f := c.reflected(&s); f != nil {
			p.nonzero("Reflection | outcome", f.Outcome.Score)
		}
	}
	if len(ours) == 0 || last.More {
		return
	}
	row := fmt.Sprintf("Learned from it | %s/versions/%d | ", book, last.Version)
	parts := c.books[book].parts(last)
	for _, part := range parts {
		for i := range part.Ops {
			if o, ok := supported(&part.Ops[i], ours); ok {
				p.add(row+"Version", float64(last.Version))
				p.add(row+"Change", opNumbers(o, last)...)
			}
		}
	}
	for _, part := range parts {
		for i := range part.Refused {
			if o, ok := supported(&part.Refused[i].Op, ours); ok {
				p.add(row+"Version", float64(last.Version))
				p.add(row+"Change", valuesOf(cmp.Or(part.Refused[i].Reason, o.Reason, last.Reason))...)
			}
		}
	}
}

// reflected returns the stored reflection behind a cover, nil if it has expired or was never stored.
func (c *Console) reflected(s *support) *reflection {
	for _, m := range c.Reflections {
		if kind, _ := kindAndBook(m.Subject); m.Seq != s.Seq || kind != "reflection" {
			continue
		}
		if f, err := decode[reflection](m.Data); err == nil && source(f) == s.ID {
			return f
		}
	}
	return nil
}

// supported returns an operation with the part of an execution alone: its votes and its outcomes. It is false without its support.
func supported(o *changeOp, ours []int) (*changeOp, bool) {
	one := *o
	one.Support, one.Seen = nil, nil
	for k, i := range o.Support {
		if !slices.Contains(ours, i) {
			continue
		}
		one.Support = append(one.Support, i)
		if k < len(o.Seen) {
			one.Seen = append(one.Seen, o.Seen[k])
		}
	}
	if o.Kind == "TAG" { // each supporter has one vote
		one.Helpful = len(one.Support)
		one.Harmful = 0
		one.Neutral = 0
	}
	return &one, len(one.Support) > 0
}

// sessions are the pages of the sessions.
func (c *Console) sessions(p Page, book string, rest []string, q url.Values) {
	all := c.ofBook(book)
	if len(rest) > 0 {
		var ours []*run
		for _, r := range all {
			if r.Session == rest[0] && (!q.Has("owner") || r.Owner == q.Get("owner")) {
				ours = append(ours, r)
				if r.Turn > 0 {
					place := "Window | " + book + "/executions/" + r.Handle + " | Turn # · ·"
					p[place] = append(p[place], Expected{Values: []float64{float64(r.Turn)}, Among: true}) // the window may have expired
				}
			}
		}
		p.executions("Stored executions | ", book, ours[:min(50, len(ours))])
		return
	}
	turns := map[[2]string]int{}
	var newest [][2]string
	for _, r := range all {
		key := [2]string{r.Owner, r.Session}
		if r.Session != "" && turns[key] == 0 {
			newest = append(newest, key)
		}
		turns[key]++
	}
	for _, key := range newest[:min(50, len(newest))] {
		p.add(book+"/sessions/"+key[1]+" | Turns", float64(turns[key]))
	}
}

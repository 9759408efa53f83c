package auditor

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
)

// versions are the pages of the versions.
func (c *Console) versions(p Page, book string, rest []string, q url.Values) {
	h := c.books[book]
	if len(rest) == 0 {
		n := 0
		for _, x := range slices.Backward(h.changes) {
			if after, err := strconv.ParseUint(q.Get("after"), 10, 64); err == nil && x.Version >= after {
				continue
			}
			if q.Get("changes") != "all" && !x.changesBullets() {
				continue
			}
			if n++; n <= 50 {
				c.versionRow(p, "", book, x)
			}
		}
		return
	}
	v, _ := strconv.Atoi(rest[0])
	x := h.changes[v-1]
	p.add("Version # of", float64(v))
	values := x.numbers()
	if n := x.reflections(); n > 0 {
		values = append(values, float64(n))
	}
	p.add("summary", values...)
	for i := range x.Ops {
		o := &x.Ops[i]
		plain := *o
		plain.Reason = ""
		p.add("Operations | "+book+"/bullets/"+o.Bullet+" | Change", opNumbers(&plain, new(change))...)
		p.add("Operations | "+book+"/bullets/"+o.Bullet+" | Reason", valuesOf(o.Reason)...)
	}
	for i := range x.Refused {
		p.add("Rejected | Reason", valuesOf(x.Refused[i].Reason)...)
	}
}

// versionRow adds the row of a version in a list.
func (c *Console) versionRow(p Page, heading, book string, x *change) {
	row := fmt.Sprintf("%s%s/versions/%d | ", heading, book, x.Version)
	p.add(row+"Version", float64(x.Version))
	p.add(row+"Changes", x.numbers()...)
	p.nonzero(row+"From", float64(x.reflections()))
}

// diff is the comparison of two versions: by default of the newest one with the empty playbook.
func (c *Console) diff(p Page, book string, _ []string, q url.Values) {
	h := c.books[book]
	from, _ := strconv.Atoi(q.Get("from"))
	to, err := strconv.Atoi(q.Get("to"))
	if err != nil {
		to = len(h.changes)
	}
	p.counted("From to : ", h.differ(from, to), "changed bullet", ".")
	h.votesBetween(p, "", book, from, to)
}

// votesBetween adds the votes that differ between two versions.
func (h *history) votesBetween(p Page, heading, book string, from, to int) {
	for id, b := range h.states[from] {
		now, ok := h.states[to][id]
		var values []float64
		for _, v := range [][2]int{{b.Helpful, now.Helpful}, {b.Harmful, now.Harmful}, {b.Neutral, now.Neutral}} {
			if ok && v[0] != v[1] {
				values = append(values, float64(v[0]), float64(v[1]))
			}
		}
		p.add(heading+book+"/bullets/"+id+" | Bullet", values...)
	}
}

// restore is the preview of a restore.
func (c *Console) restore(p Page, book string, _ []string, q url.Values) {
	h := c.books[book]
	to, _ := strconv.Atoi(q.Get("to"))
	for _, x := range h.changes {
		for _, name := range x.Names {
			if name.Name == q.Get("to") {
				to = int(name.Version)
			}
		}
	}
	if n := h.differ(to, len(h.changes)); n > 0 {
		place := "# " + plural(n, "bullet") + " would change"
		p.add(place+" | "+place, float64(n))
		h.votesBetween(p, place+" | ", book, len(h.changes), to)
	}
}

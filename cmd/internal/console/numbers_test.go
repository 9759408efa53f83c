package console

import (
	"cmp"
	"encoding/xml"
	"errors"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/integration/auditor"
)

// node is an element of a page, or a text if it has no name.
type node struct {
	name     string
	attr     map[string]string
	text     string
	children []*node
	parent   *node
}

// parsePage parses a page. The pages close all elements, so a lenient XML decoder reads them.
func parsePage(t testing.TB, page string) *node {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	root := &node{name: "document"}
	at := root
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return root
		}
		check(t, err)
		switch x := token.(type) {
		case xml.StartElement:
			n := &node{name: x.Name.Local, attr: map[string]string{}, parent: at}
			for _, a := range x.Attr {
				n.attr[a.Name.Local] = a.Value
			}
			at.children = append(at.children, n)
			at = n
		case xml.EndElement:
			at = at.parent
		case xml.CharData:
			at.children = append(at.children, &node{text: string(x), parent: at})
		}
	}
}

// class reports whether the element has one of some classes.
func (n *node) class(names ...string) bool {
	return slices.ContainsFunc(strings.Fields(n.attr["class"]), func(c string) bool { return slices.Contains(names, c) })
}

// all returns the elements below n with one of some names, in the order of the page.
func (n *node) all(names ...string) (found []*node) {
	for _, c := range n.children {
		if slices.Contains(names, c.name) {
			found = append(found, c)
		}
		found = append(found, c.all(names...)...)
	}
	return found
}

// inner returns the text of n without that of the elements that skip accepts.
func (n *node) inner(skip func(*node) bool) string {
	var out strings.Builder
	var walk func(*node)
	walk = func(n *node) {
		out.WriteString(n.text)
		for _, c := range n.children {
			if !skip(c) {
				walk(c)
			}
		}
	}
	walk(n)
	return strings.Join(strings.FieldsFunc(out.String(), func(r rune) bool { return strings.ContainsRune(" \n\t", r) }), " ")
}

// isQuoted reports whether an element has no number of the server: a text or an id that somebody wrote, a time, a control, or the scale of a
// chart, whose marks are in the table below it.
func isQuoted(n *node) bool {
	switch n.name {
	case "time", "pre", "code", "kbd", "button", "input", "textarea", "select", "datalist", "script", "style", "nav":
		return true
	case "svg":
		return !n.class("lift")
	case "span", "a", "strong", "q", "del", "ins":
		return n.class("text", "code")
	case "p", "h1":
		return n.class("lead", "quote")
	case "td", "th":
		return n.class("code")
	}
	return false
}

// blockOf returns the block that an element is in.
func blockOf(n *node) *node {
	for n != nil && !slices.Contains(blocks, n.name) {
		n = n.parent
	}
	return n
}

// blocks are the elements of which each shows its numbers on its own.
var blocks = []string{"td", "th", "dd", "dt", "p", "li", "h1", "h2", "h3", "figcaption", "caption", "summary", "legend", "label"}

// number is a text of a page with at least one number.
type number struct {
	place  string // heading, row and column, or the text with # for each number
	text   string
	values []auditor.Number
}

// numbersOf returns all numbers of the content of a page.
func numbersOf(t testing.TB, page string) (all []number) {
	t.Helper()
	heading := ""
	var walk func(*node)
	walk = func(n *node) {
		for _, c := range n.children {
			if isQuoted(c) {
				continue
			}
			if c.name == "h2" || c.name == "h3" {
				heading = shape(c.inner(isQuoted))
			}
			if slices.Contains(blocks, c.name) {
				text := c.inner(func(x *node) bool { return isQuoted(x) || x.name == "title" || slices.Contains(blocks, x.name) })
				for _, title := range c.all("title") {
					if title.parent.class("lift") && blockOf(title) == c {
						text += " " + title.inner(isQuoted)
					}
				}
				if x := newNumber(heading, c, text); len(x.values) > 0 {
					all = append(all, x)
				}
			}
			walk(c)
		}
	}
	for _, main := range parsePage(t, page).all("main") {
		walk(main)
	}
	return all
}

// shape returns a text with # in place of each number.
func shape(text string) string {
	_, s := auditor.ParseNumbers(text)
	return s
}

// quotation matches a text in quotes that somebody wrote, and the name of a model with the version of a prompt.
var quotation = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\(model [^)]*\)`)

func newNumber(heading string, n *node, text string) (x number) {
	x.text = text
	text = quotation.ReplaceAllString(text, "")
	x.values, _ = auditor.ParseNumbers(text)
	var parts []string
	if heading != "" {
		parts = append(parts, heading)
	}
	switch n.name {
	case "td", "th":
		parts = append(parts, rowOf(n), columnOf(n))
	case "dd":
		parts = append(parts, n.parent.all("dt")[0].inner(isQuoted))
	case "li":
		parts = append(parts, linkOf(n), shape(text))
	default:
		if card := n.parent; card.name == "li" || card.parent != nil && card.parent.name == "li" {
			for card.name != "li" {
				card = card.parent
			}
			parts = append(parts, cmp.Or(linkOf(n), linkOf(card)))
		}
		parts = append(parts, shape(text))
	}
	x.place = strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " | ")
	return x
}

// linkOf returns the path of the first link in an element, without /books/ or the first slash. It returns "" without a link.
func linkOf(n *node) string {
	for _, a := range n.all("a") {
		u, err := url.Parse(a.attr["href"])
		if err == nil {
			return strings.TrimPrefix(strings.TrimPrefix(u.Path, "/"), "books/")
		}
	}
	return ""
}

// rowOf returns the name of the row of a cell: its header, its first link, or its first cell.
func rowOf(cell *node) string {
	row := cell.parent
	for _, th := range row.all("th") {
		if th.attr["scope"] == "row" {
			return th.inner(func(*node) bool { return false })
		}
	}
	if link := linkOf(row); link != "" {
		return link
	}
	cells := row.all("td")
	if len(cells) == 0 {
		return "head"
	}
	return cells[0].inner(func(*node) bool { return false })
}

// columnOf returns the header of the column of a cell.
func columnOf(cell *node) string {
	i := 0
	for _, c := range cell.parent.children {
		if c == cell {
			break
		}
		if c.name == "td" || c.name == "th" {
			i++
		}
	}
	table := cell.parent
	for table.name != "table" {
		table = table.parent
	}
	for _, head := range table.all("thead") {
		if all := head.all("th"); i < len(all) {
			return all[i].inner(func(*node) bool { return false })
		}
	}
	return ""
}

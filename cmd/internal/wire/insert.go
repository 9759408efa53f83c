package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// place is a position of the body where a text can be inserted. The zero value means that a text cannot be inserted.
type place struct {
	at       int
	before   string // JSON in front of the text
	after    string
	inString bool // the position is within a string
}

func (p place) ok() bool { return p.at > 0 }

// partPlace returns the end of a content that is a string or a list of parts. A list gets a part of the type given.
func (c *conversation) partPlace(v int, partType string) place {
	n := c.doc.nodes[v]
	switch n.kind {
	case kindString:
		p := place{at: int(n.end) - 1, inString: true}
		if p.at > int(n.start)+1 {
			p.before = `\n\n`
		}
		return p
	case kindList:
		p := place{at: int(n.start) + 1, before: `{"type":"` + partType + `","text":`, after: "}"}
		for e := range c.doc.elements(v) {
			p.at = int(c.doc.nodes[e].end)
		}
		if int(n.next) > v+1 {
			p.before = "," + p.before
		}
		return p
	}
	return place{}
}

// fieldPlace returns the end of a field of the request, or the place for a new field if it is missing.
func (c *conversation) fieldPlace(v int, key string) place {
	if v != missing {
		return c.partPlace(v, "text")
	}
	return c.firstPlace(root, `"`+key+`":`, "")
}

// newSystemMessage returns the place of a new first message.
func (c *conversation) newSystemMessage(list int) place {
	if c.doc.kind(list) != kindList {
		return place{}
	}
	return c.firstPlace(list, `{"role":"system","content":`, "}")
}

// firstPlace returns the place of a new first child of a list or object.
func (c *conversation) firstPlace(v int, before, after string) place {
	n := c.doc.nodes[v]
	if int(n.next) > v+1 {
		after += ","
	}
	return place{at: int(n.start) + 1, before: before, after: after}
}

// insertion is a text in the JSON that the body gets at a position.
type insertion struct {
	at   int
	json []byte
}

// insertion returns the insertion of a text at the place.
func (p place) insertion(text string) insertion {
	return insertion{p.at, slices.Concat([]byte(p.before), quote(text, p.inString), []byte(p.after))}
}

// Insert returns the body with a text added to the end of each given item of the user, by its index, and with system added
// to the end of the system prompt. All other bytes stay. An empty text adds nothing. Equal texts give equal bytes.
// It returns an error if an item is not the user's, or if there is neither a string nor a list to extend.
func (r *Request) Insert(texts map[int]string, system string) ([]byte, error) {
	var insertions []insertion
	for i, text := range texts {
		p, err := r.userPlace(i)
		if err != nil {
			return nil, err
		}
		if text != "" {
			insertions = append(insertions, p.insertion(text))
		}
	}
	if system != "" {
		if !r.systemPlace.ok() {
			return nil, fmt.Errorf("insert text into the system prompt of a %s request: neither a string nor a list", r.API)
		}
		insertions = append(insertions, r.systemPlace.insertion(system))
	}
	return r.apply(insertions), nil
}

// userPlace returns the place in the item i.
func (r *Request) userPlace(i int) (place, error) {
	switch {
	case i < 0 || i >= len(r.Items):
		return place{}, fmt.Errorf("insert text into item %d of a %s request: it has %d items", i, r.API, len(r.Items))
	case r.Items[i].Role != RoleUser:
		return place{}, fmt.Errorf("insert text into item %d of a %s request: its role is %s, want user", i, r.API, r.Items[i].Role)
	case !r.places[i].ok():
		return place{}, fmt.Errorf("insert text into item %d of a %s request: content is neither a string nor a list", i, r.API)
	}
	return r.places[i], nil
}

// apply returns the body with all insertions. Their positions differ.
func (r *Request) apply(insertions []insertion) []byte {
	slices.SortFunc(insertions, func(a, b insertion) int { return a.at - b.at })
	size := len(r.body)
	for _, in := range insertions {
		size += len(in.json)
	}
	out, done := make([]byte, 0, size), 0
	for _, in := range insertions {
		out = append(append(out, r.body[done:in.at]...), in.json...)
		done = in.at
	}
	return append(out, r.body[done:]...)
}

// quote returns the JSON string of a text, without its quotes if bare is set.
func quote(text string, bare bool) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a string always has a JSON form
	quoted := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if bare {
		return quoted[1 : len(quoted)-1]
	}
	return quoted
}

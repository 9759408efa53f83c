package wire

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
)

// elements yields the elements of a list. It yields nothing for other values.
func (d *document) elements(v int) iter.Seq[int] {
	return func(yield func(int) bool) {
		if d.nodes[v].kind != kindList {
			return
		}
		for e := v + 1; e < int(d.nodes[v].next); e = int(d.nodes[e].next) {
			if !yield(e) {
				return
			}
		}
	}
}

// members yields the keys and values of an object. It yields nothing for other values.
func (d *document) members(v int) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		if d.nodes[v].kind != kindObject {
			return
		}
		for k := v + 1; k < int(d.nodes[v].next); k = int(d.nodes[k+1].next) {
			if !yield(k, k+1) {
				return
			}
		}
	}
}

// get returns the value of a key: the last one if the key is repeated, as most parsers do. It returns missing if v has no
// such key, or is not an object.
func (d *document) get(v int, key string) int {
	found := missing
	for k, value := range d.members(v) {
		n := d.nodes[k]
		if string(d.body[n.start+1:n.end-1]) == key || n.escaped && d.text(k) == key {
			found = value
		}
	}
	return found
}

// find returns the value at a path of keys.
func (d *document) find(v int, path ...string) int {
	for _, key := range path {
		v = d.get(v, key)
	}
	return v
}

// textAt returns the text at a path of keys, or "".
func (d *document) textAt(v int, path ...string) string { return d.text(d.find(v, path...)) }

func (d *document) kind(v int) kind { return d.nodes[v].kind }

// isTrue reports whether v is the literal true.
func (d *document) isTrue(v int) bool {
	return d.kind(v) == kindBool && d.body[d.nodes[v].start] == 't'
}

// count returns the value of a number that counts something, and 0 for negative numbers and other values.
func (d *document) count(v int) int {
	if d.kind(v) != kindNumber {
		return 0
	}
	f, err := strconv.ParseFloat(string(d.raw(v)), 64)
	if err != nil || f < 0 {
		return 0
	}
	return int(min(f, math.MaxInt32))
}

// setCount sets n to the number at a path of keys, if there is one.
func (d *document) setCount(n *int, v int, path ...string) {
	if v = d.find(v, path...); d.kind(v) == kindNumber {
		*n = d.count(v)
	}
}

// setText sets s to the text at a key, if it is still empty.
func (d *document) setText(s *string, v int, key string) {
	if *s == "" {
		*s = d.textAt(v, key)
	}
}

// raw returns the bytes of a value, and nothing for a missing one.
func (d *document) raw(v int) []byte { return d.body[d.nodes[v].start:d.nodes[v].end] }

// compact returns the JSON of a value without spaces, and "" for a missing one.
func (d *document) compact(v int) string {
	var b bytes.Buffer
	if v == missing || json.Compact(&b, d.raw(v)) != nil {
		return ""
	}
	return b.String()
}

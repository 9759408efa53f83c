package modelapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a document. They bound memory and stack, and exceed every body of a real client.
const (
	maxValues = 1 << 20 // values and keys; each needs 16 bytes
	maxDepth  = 1000    // nested lists and objects
)

var (
	errTooDeep = fmt.Errorf("JSON is nested deeper than %d", maxDepth)
	errTooMany = fmt.Errorf("JSON has more than %d values", maxValues)
	errTooLong = errors.New("JSON is over 2 GiB")
)

// options accept what clients and models send: a body is passed on as it is, so that only its syntax matters.
var options = jsontext.AllowDuplicateNames(true)

// node is one JSON value or key: body[start:end]. The children of a list or object follow it, an object has keys and values
// in turn. The next sibling is at index next.
type node struct {
	start, end, next int32
	kind             jsontext.Kind
}

// document is a JSON text with the positions of its values. Index 0 is a null value that stands for all missing ones, and
// index 1 is the root.
type document struct {
	body    []byte
	nodes   []node
	decoder jsontext.Decoder
	open    []int  // lists and objects that are not complete; reused
	scratch []byte // reused by text
}

// parse reads one JSON value and returns it. The value keeps body, and is valid until the next call.
func (d *document) parse(body []byte) (value, error) {
	if len(body) > math.MaxInt32 {
		return value{}, errTooLong
	}
	d.body, d.nodes, d.open = body, append(d.nodes[:0], node{next: 1, kind: 'n'}), d.open[:0]
	d.decoder.Reset(bytes.NewBuffer(body), options, jsontext.AllowInvalidUTF8(true))
	for {
		err := d.add()
		switch {
		case err == io.EOF && len(d.nodes) > 1:
			return value{d, 1}, nil
		case err == io.EOF:
			return value{}, errors.New("invalid JSON at byte 0")
		case err == nil && len(d.open) == 0 && d.nodes[1].next != int32(len(d.nodes)):
			return value{}, fmt.Errorf("invalid JSON at byte %d: data after the value", d.nodes[len(d.nodes)-1].start)
		case err != nil:
			return value{}, err
		}
	}
}

// parseValue returns the value of a JSON text, or the missing value if the text is invalid.
func parseValue(raw []byte) value {
	v, err := new(document).parse(raw)
	if err != nil {
		return value{}
	}
	return v
}

// add reads the next scalar value, key or bracket. At the end of the text it returns io.EOF, not wrapped.
func (d *document) add() error {
	kind := d.decoder.PeekKind()
	if kind == '}' || kind == ']' {
		return d.finish()
	}
	if len(d.nodes) > maxValues && kind != 0 {
		return errTooMany
	}
	n := node{kind: kind, next: int32(len(d.nodes) + 1)}
	if kind == '{' || kind == '[' {
		if len(d.open) == maxDepth {
			return errTooDeep
		}
		if _, err := d.decoder.ReadToken(); err != nil {
			return syntaxError(err)
		}
		n.start = int32(d.decoder.InputOffset()) - 1
		d.open = append(d.open, len(d.nodes))
	} else {
		raw, err := d.decoder.ReadValue()
		if err != nil {
			return syntaxError(err)
		}
		n.end = int32(d.decoder.InputOffset())
		n.start = n.end - int32(len(raw))
	}
	d.nodes = append(d.nodes, n)
	return nil
}

// finish reads the closing bracket of the last open list or object.
func (d *document) finish() error {
	if _, err := d.decoder.ReadToken(); err != nil {
		return syntaxError(err)
	}
	last := len(d.open) - 1
	n := &d.nodes[d.open[last]]
	n.end, n.next = int32(d.decoder.InputOffset()), int32(len(d.nodes))
	d.open = d.open[:last]
	return nil
}

func syntaxError(err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("invalid JSON at byte %d", syntax.ByteOffset)
	}
	return err
}

// value is a value of a document. The zero value is a missing one: it reads as null.
type value struct {
	d *document
	i int
}

func (v value) node() node {
	if v.d == nil {
		return node{kind: 'n'}
	}
	return v.d.nodes[v.i]
}

// kind returns '{', '[', '"', '0', 't', 'f', or 'n' for null and a missing value.
func (v value) kind() jsontext.Kind { return v.node().kind }

// isSet reports whether the value is neither missing nor null.
func (v value) isSet() bool { return v.kind() != 'n' }

// isMissing reports whether the value is not in the document.
func (v value) isMissing() bool { return v.d == nil || v.i == 0 }

// elements yields the elements of a list. It yields nothing for other values.
func (v value) elements() iter.Seq[value] {
	return func(yield func(value) bool) {
		n := v.node()
		if n.kind != '[' {
			return
		}
		for e := v.i + 1; e < int(n.next); e = int(v.d.nodes[e].next) {
			if !yield(value{v.d, e}) {
				return
			}
		}
	}
}

// members yields the keys and values of an object. It yields nothing for other values.
func (v value) members() iter.Seq2[value, value] {
	return func(yield func(value, value) bool) {
		n := v.node()
		if n.kind != '{' {
			return
		}
		for k := v.i + 1; k < int(n.next); k = int(v.d.nodes[k+1].next) {
			if !yield(value{v.d, k}, value{v.d, k + 1}) {
				return
			}
		}
	}
}

// get returns the value at a path of keys: the last one if a key is repeated, as most parsers do. It is missing if there is
// none.
func (v value) get(path ...string) value {
	for _, key := range path {
		v = v.member(key)
	}
	return v
}

func (v value) member(key string) value {
	n := v.node()
	if n.kind != '{' {
		return value{}
	}
	found := 0
	for k := v.i + 1; k < int(n.next); k = int(v.d.nodes[k+1].next) {
		at := v.d.nodes[k]
		name := v.d.body[at.start+1 : at.end-1]
		if string(name) == key || bytes.IndexByte(name, '\\') >= 0 && (value{v.d, k}).text() == key {
			found = k + 1
		}
	}
	return value{v.d, found}
}

// first returns the first of the members that is set, or a missing value.
func (v value) first(keys ...string) value {
	for _, key := range keys {
		if member := v.get(key); member.isSet() {
			return member
		}
	}
	return value{}
}

// has reports whether one of the members is set.
func (v value) has(keys ...string) bool { return v.first(keys...).isSet() }

// textAt returns the text at a path of keys, or "".
func (v value) textAt(path ...string) string { return v.get(path...).text() }

// text returns the text of a string, and "" for other values. Invalid UTF-8 and unpaired surrogates become U+FFFD.
func (v value) text() string {
	if v.kind() != '"' {
		return ""
	}
	raw := v.raw()
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	v.d.scratch, _ = jsontext.AppendUnquote(v.d.scratch[:0], raw) // an error reports replaced characters
	return string(v.d.scratch)
}

// id returns the first of the members that is a string with text or a number: some servers number their calls.
func (v value) id(keys ...string) string {
	for _, key := range keys {
		member := v.get(key)
		if text := member.text(); text != "" {
			return text
		}
		if member.kind() == '0' {
			return string(member.raw())
		}
	}
	return ""
}

// count returns the value of a number that counts something, and 0 for negative numbers and other values.
func (v value) count() int {
	f, err := strconv.ParseFloat(string(v.raw()), 64)
	if v.kind() != '0' || err != nil || f < 0 {
		return 0
	}
	return int(min(f, math.MaxInt32))
}

// setCount sets n to the number at a path of keys, if there is one.
func (v value) setCount(n *int, path ...string) {
	if v = v.get(path...); v.kind() == '0' {
		*n = v.count()
	}
}

// setText sets s to the text at a key, if it is still empty.
func (v value) setText(s *string, key string) {
	if *s == "" {
		*s = v.textAt(key)
	}
}

// raw returns the bytes of the value, and nothing for a missing one.
func (v value) raw() []byte {
	if v.isMissing() {
		return nil
	}
	n := v.node()
	return v.d.body[n.start:n.end]
}

// compact returns the JSON of the value without spaces, and "" for null and a missing value.
func (v value) compact() string {
	var b bytes.Buffer
	if !v.isSet() || json.Compact(&b, v.raw()) != nil {
		return ""
	}
	return b.String()
}

package wire

import (
	"errors"
	"fmt"
	"math"
)

// Limits of a document. They bound memory and stack, and exceed every body of a real client.
const (
	maxValues = 1 << 20 // values and keys; each needs 16 bytes
	maxDepth  = 1000    // nested lists and objects
)

// kind is the type of a JSON value.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindList
	kindObject
)

// node is one JSON value: body[start:end]. The children of a list or object follow it, an object has keys and values in
// turn. The next sibling is at index next.
type node struct {
	kind    kind
	escaped bool // a string that contains a backslash
	start   int32
	end     int32
	next    int32
}

// document is a JSON text with the positions of its values. Values are indexes of nodes. Index 0 is a null value that stands
// for all missing ones, and index 1 is the root.
type document struct {
	body    []byte
	nodes   []node
	scratch []byte // reused by text
}

const (
	missing = 0
	root    = 1
)

var (
	errTooDeep = fmt.Errorf("JSON is nested deeper than %d", maxDepth)
	errTooMany = fmt.Errorf("JSON has more than %d values", maxValues)
	errTooLong = errors.New("JSON is over 2 GiB")
)

// parse reads one JSON value. It keeps body, and reuses the memory of an earlier document.
func (d *document) parse(body []byte) error {
	if len(body) > math.MaxInt32 {
		return errTooLong
	}
	d.body, d.nodes = body, append(d.nodes[:0], node{next: 1})
	pos, err := d.value(d.space(0), 0)
	if err != nil {
		return err
	}
	if pos = d.space(pos); pos != len(body) {
		return invalid(pos)
	}
	return nil
}

func invalid(pos int) error { return fmt.Errorf("invalid JSON at byte %d", pos) }

// space returns the position of the first byte from pos on that is not white space.
func (d *document) space(pos int) int {
	for pos < len(d.body) {
		switch d.body[pos] {
		case ' ', '\t', '\r', '\n':
			pos++
		default:
			return pos
		}
	}
	return pos
}

// at returns the byte at pos, or 0 behind the end. A zero byte is invalid everywhere in JSON.
func (d *document) at(pos int) byte {
	if pos < len(d.body) {
		return d.body[pos]
	}
	return 0
}

// value adds the value at pos with its children, and returns the position behind it.
func (d *document) value(pos, depth int) (int, error) {
	switch c := d.at(pos); c {
	case '"':
		return d.str(pos)
	case '{', '[':
		if depth == maxDepth {
			return pos, errTooDeep
		}
		if c == '{' {
			return d.object(pos, depth+1)
		}
		return d.list(pos, depth+1)
	case 't':
		return d.literal(pos, kindBool, "true")
	case 'f':
		return d.literal(pos, kindBool, "false")
	case 'n':
		return d.literal(pos, kindNull, "null")
	}
	return d.number(pos)
}

// add adds a node that has no children.
func (d *document) add(k kind, escaped bool, start, end int) (int, error) {
	if len(d.nodes) > maxValues {
		return end, errTooMany
	}
	d.nodes = append(d.nodes, node{kind: k, escaped: escaped, start: int32(start), end: int32(end), next: int32(len(d.nodes) + 1)})
	return end, nil
}

// finish sets the end of a list or object, whose children are complete.
func (d *document) finish(v, end int) (int, error) {
	d.nodes[v].end, d.nodes[v].next = int32(end), int32(len(d.nodes))
	return end, nil
}

func (d *document) literal(pos int, k kind, word string) (int, error) {
	end := pos + len(word)
	if end > len(d.body) || string(d.body[pos:end]) != word {
		return pos, invalid(pos)
	}
	return d.add(k, false, pos, end)
}

func (d *document) list(pos, depth int) (int, error) {
	v := len(d.nodes)
	if _, err := d.add(kindList, false, pos, pos); err != nil {
		return pos, err
	}
	if pos = d.space(pos + 1); d.at(pos) == ']' {
		return d.finish(v, pos+1)
	}
	for {
		end, err := d.value(pos, depth)
		if err != nil {
			return end, err
		}
		switch pos = d.space(end); d.at(pos) {
		case ',':
			pos = d.space(pos + 1)
		case ']':
			return d.finish(v, pos+1)
		default:
			return pos, invalid(pos)
		}
	}
}

func (d *document) object(pos, depth int) (int, error) {
	v := len(d.nodes)
	if _, err := d.add(kindObject, false, pos, pos); err != nil {
		return pos, err
	}
	if pos = d.space(pos + 1); d.at(pos) == '}' {
		return d.finish(v, pos+1)
	}
	for {
		end, err := d.member(pos, depth)
		if err != nil {
			return end, err
		}
		switch pos = d.space(end); d.at(pos) {
		case ',':
			pos = d.space(pos + 1)
		case '}':
			return d.finish(v, pos+1)
		default:
			return pos, invalid(pos)
		}
	}
}

// member adds a key and its value.
func (d *document) member(pos, depth int) (int, error) {
	if d.at(pos) != '"' {
		return pos, invalid(pos)
	}
	end, err := d.str(pos)
	if err != nil {
		return end, err
	}
	if pos = d.space(end); d.at(pos) != ':' {
		return pos, invalid(pos)
	}
	return d.value(d.space(pos+1), depth)
}

// number adds a number, whose first byte is at pos.
func (d *document) number(start int) (int, error) {
	pos := start
	if d.at(pos) == '-' {
		pos++
	}
	if d.at(pos) == '0' {
		pos++
	} else if pos = d.digits(pos); pos < 0 {
		return start, invalid(start)
	}
	if d.at(pos) == '.' {
		if pos = d.digits(pos + 1); pos < 0 {
			return start, invalid(start)
		}
	}
	if c := d.at(pos); c == 'e' || c == 'E' {
		if c := d.at(pos + 1); c == '+' || c == '-' {
			pos++
		}
		if pos = d.digits(pos + 1); pos < 0 {
			return start, invalid(start)
		}
	}
	return d.add(kindNumber, false, start, pos)
}

// digits returns the position behind the digits at pos, or -1 without digits.
func (d *document) digits(pos int) int {
	start := pos
	for c := d.at(pos); c >= '0' && c <= '9'; c = d.at(pos) {
		pos++
	}
	if pos == start {
		return -1
	}
	return pos
}

package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// The hash of an item covers a byte string of fields, each with a tag, and texts with their length, so that different
// items have different strings. It ignores spaces, the order of keys, markers of prompt caches, and the thoughts of a
// model, which clients drop from older turns.

// Tags of hashed fields.
const (
	tagText    = 't'
	tagRefusal = 'f'
	tagCall    = 'c'
	tagResult  = 'r'
	tagError   = 'e' // a failed result
	tagEnd     = '.' // the end of a result
	tagOther   = 'o' // a part of another type, as JSON
	tagField   = 'n' // another field of a message
)

// appendField appends a field with a text.
func appendField(dst []byte, tag byte, text string) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(text)))
	return append(dst, text...)
}

// extend returns the hash of a conversation after one more item.
func extend(before Hash, role Role, fields []byte) Hash {
	h := sha256.New()
	h.Write(before[:])
	h.Write(appendField(nil, tagField, string(role)))
	h.Write(fields)
	return Hash(h.Sum(nil)[:len(before)])
}

// isCacheMarker reports whether a key only marks a position for the prompt cache of a provider.
func isCacheMarker(key string) bool {
	return key == "cache_control" || key == "prompt_cache_breakpoint"
}

// appendJSON appends the JSON value v in a form that ignores spaces, the order of keys and escape sequences. It leaves out
// the cache markers unless exact is set.
func (d *document) appendJSON(dst []byte, v int, exact bool) []byte {
	switch d.kind(v) {
	case kindString:
		return appendField(dst, '"', d.text(v))
	case kindList:
		dst = append(dst, '[')
		for e := range d.elements(v) {
			dst = d.appendJSON(dst, e, exact)
		}
		return append(dst, ']')
	case kindObject:
		return d.appendObject(dst, v, exact)
	}
	raw := d.raw(v)
	return append(binary.AppendUvarint(append(dst, '#'), uint64(len(raw))), raw...)
}

// appendObject appends the members of an object, sorted by key.
func (d *document) appendObject(dst []byte, v int, exact bool) []byte {
	type member struct {
		key   string
		value int
	}
	var members []member
	for k, value := range d.members(v) {
		if key := d.text(k); exact || !isCacheMarker(key) {
			members = append(members, member{key, value})
		}
	}
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for _, m := range members {
		dst = d.appendJSON(appendField(dst, 'k', m.key), m.value, exact)
	}
	return append(dst, '}')
}

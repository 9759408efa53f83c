package modelapi

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// The hash of a message covers a byte string of fields, each with a tag, and texts with their length, so that different
// messages have different strings. It ignores spaces, the order of keys, markers of prompt caches, and the thoughts of a
// model, which clients drop from older turns.

// Tags of hashed fields.
const (
	tagText   = 't'
	tagCall   = 'c'
	tagResult = 'r'
	tagError  = 'e' // a failed result
	tagOther  = 'o' // a part of another type, as JSON
	tagRole   = 'n'
)

// chain is the hash of a conversation, which grows with each message.
type chain struct {
	sum    Hash
	fields []byte   // reused
	doc    Document // of arguments; reused
}

// add extends the hash. A message of the assistant without content, such as its thoughts, changes nothing.
func (c *chain) add(m *message) {
	dst := append(c.fields[:0], c.sum[:]...)
	dst = appendField(dst, tagRole, string(m.Role))
	empty := len(dst)
	for _, text := range m.texts {
		dst = appendField(dst, tagText, text)
	}
	for i := range m.Calls {
		call := &m.Calls[i]
		dst = appendField(dst, tagCall, call.ID)
		dst = appendField(dst, tagCall, call.Name)
		dst = c.appendArguments(dst, call.Arguments)
	}
	for i := range m.Results {
		r := &m.Results[i]
		dst = appendField(dst, tagResult, r.CallID)
		dst = appendField(dst, tagResult, r.Output)
		if r.Signs.Failed() {
			dst = append(dst, tagError)
		}
	}
	for _, v := range m.others {
		dst = appendJSON(append(dst, tagOther), v, false)
	}
	c.fields = dst
	if len(dst) > empty || m.Role == RoleUser || c.sum == (Hash{}) {
		sum := sha256.Sum256(dst)
		copy(c.sum[:], sum[:])
	}
}

// appendField appends a field with a text.
func appendField(dst []byte, tag byte, text string) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(text)))
	return append(dst, text...)
}

// appendArguments appends the arguments of a call. Clients write JSON again, so that its spaces and order may change.
func (c *chain) appendArguments(dst []byte, arguments string) []byte {
	if v, err := c.doc.Parse([]byte(arguments)); err == nil {
		return appendJSON(dst, v, true)
	}
	return appendField(dst, tagCall, arguments)
}

// isCacheMarker reports whether a key only marks a position for the prompt cache of a provider.
func isCacheMarker(key string) bool {
	return key == "cache_control" || key == "prompt_cache_breakpoint"
}

// appendJSON appends a JSON value in a form that ignores spaces, the order of keys and escape sequences. It leaves out the
// cache markers unless exact is set.
func appendJSON(dst []byte, v Value, exact bool) []byte {
	switch v.Kind() {
	case '"':
		return appendField(dst, '"', v.Text())
	case '[':
		dst = append(dst, '[')
		for e := range v.Elements() {
			dst = appendJSON(dst, e, exact)
		}
		return append(dst, ']')
	case '{':
		return appendObject(dst, v, exact)
	}
	return appendField(dst, '#', string(v.Raw()))
}

// appendObject appends the members of an object, sorted by key.
func appendObject(dst []byte, v Value, exact bool) []byte {
	type member struct {
		key   string
		value Value
	}
	var members []member
	for k, inner := range v.Members() {
		if key := k.Text(); exact || !isCacheMarker(key) {
			members = append(members, member{key, inner})
		}
	}
	slices.SortStableFunc(members, func(a, b member) int { return strings.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for _, m := range members {
		dst = appendJSON(appendField(dst, 'k', m.key), m.value, exact)
	}
	return append(dst, '}')
}

package modelapi

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// The hash of a message covers a byte string of fields. Each field has a tag and its text with the length, so that different
// messages have different strings. The hash ignores spaces, the order of keys, markers of prompt caches, and the thoughts of a
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
	fields []byte // reused
}

// add extends the hash by a message. A message without content, such as the thoughts of the assistant, changes nothing, unless it is of
// the user.
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
		dst = appendField(dst, tagCall, Canonical([]byte(call.Arguments)))
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
		dst = appendOther(dst, v)
	}
	c.fields = dst
	isEmpty := len(dst) == empty && m.Role != RoleUser
	isFirst := c.sum == (Hash{}) // the system prompt, which counts also if it is empty
	if isFirst || !isEmpty {
		sum := sha256.Sum256(dst)
		copy(c.sum[:], sum[:])
	}
}

// appendField appends a field with a text.
func appendField(dst []byte, tag byte, text string) []byte {
	dst = binary.AppendUvarint(append(dst, tag), uint64(len(text)))
	return append(dst, text...)
}

// canonicalForm are the options for JSON without spaces, with sorted keys, and with equal escape sequences.
var canonicalForm = []jsontext.Options{
	options, jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(false), jsontext.ReorderRawObjects(true),
}

// Canonical returns JSON in a form that is the same after a client has written it again. It returns another text unchanged.
func Canonical(raw []byte) string {
	text, _ := jsontext.AppendFormat(nil, raw, canonicalForm...)
	return string(text)
}

// isCacheMarker reports whether a key only marks a position for the prompt cache of a provider.
func isCacheMarker(key string) bool {
	return key == "cache_control" || key == "prompt_cache_breakpoint"
}

// appendOther appends a part of another type without its cache markers.
func appendOther(dst []byte, v Value) []byte {
	if v.Kind() != '{' {
		return appendField(dst, tagOther, Canonical(v.Raw()))
	}
	var members []string
	for key, member := range v.Members() {
		if name := key.Text(); !isCacheMarker(name) {
			members = append(members, string(appendField(nil, tagOther, name))+Canonical(member.Raw()))
		}
	}
	slices.Sort(members)
	for _, member := range members {
		dst = appendField(dst, tagOther, member)
	}
	return append(dst, tagOther)
}

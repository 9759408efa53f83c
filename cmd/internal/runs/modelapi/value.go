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
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a document. They bound memory and stack. The body of a real client stays below them.
const (
	maxValues = 1 << 20 // values and keys; each needs 16 bytes
	maxDepth  = 1000    // nested lists and objects
)

var (
	errTooDeep = fmt.Errorf("JSON is nested deeper than %d", maxDepth)
	errTooMany = fmt.Errorf("JSON has more than %d values", maxValues)
	errTooLong = errors.New("JSON is over 2 GiB")
)

// options are those for bodies of clients and models. A body with duplicate names is passed on unchanged.
var options = jsontext.AllowDuplicateNames(true)

// node is one JSON value or key: body[start:end]. The nodes of the elements of a list, or of the keys and values of an object, follow its node.
type node struct {
	start, end int32
	next       int32 // index of the node behind the value and everything in it
	kind       jsontext.Kind
}

// Document is a JSON text with the positions of its values. The zero value is ready for use.
type Document struct {
	body    []byte
	nodes   []node // in the order of the text, from index 1; index 0 has a null, which is the node of every missing value
	decoder jsontext.Decoder
	open    []int // lists and objects that are not complete; reused
	problem error // see Value.Problem
}

// Parse reads one JSON value and returns it. The value keeps body, and is valid until the next call.
func (d *Document) Parse(body []byte) (Value, error) {
	if len(body) > math.MaxInt32 {
		return Value{}, errTooLong
	}
	d.body, d.problem = body, nil
	d.nodes, d.open = append(d.nodes[:0], node{next: 1, kind: 'n'}), d.open[:0]
	d.decoder.Reset(bytes.NewBuffer(body), options, jsontext.AllowInvalidUTF8(true))
	for {
		err := d.add()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Value{}, err
		}
		hasSecond := len(d.open) == 0 && d.nodes[1].next != int32(len(d.nodes))
		if hasSecond {
			return Value{}, fmt.Errorf("invalid JSON at byte %d: data after the value", d.nodes[len(d.nodes)-1].start)
		}
	}
	if len(d.nodes) == 1 {
		return Value{}, errors.New("invalid JSON at byte 0")
	}
	return Value{d, 1}, nil
}

// ParseValue returns the value of a JSON text, or the missing value if the text is invalid.
func ParseValue(raw []byte) Value {
	v, err := new(Document).Parse(raw)
	if err != nil {
		return Value{}
	}
	return v
}

// Parsed returns the value of JSON in a text, and another value unchanged.
func (v Value) Parsed() Value {
	if inner := ParseValue([]byte(v.Text())); !inner.IsMissing() {
		return inner
	}
	return v
}

// add reads the next scalar value, key or bracket. At the end of the text it returns io.EOF, not wrapped.
func (d *Document) add() error {
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
func (d *Document) finish() error {
	if _, err := d.decoder.ReadToken(); err != nil {
		return syntaxError(err)
	}
	last := len(d.open) - 1
	n := &d.nodes[d.open[last]]
	n.end, n.next = int32(d.decoder.InputOffset()), int32(len(d.nodes))
	d.open = d.open[:last]
	return nil
}

// syntaxError returns a short error with the position for an error of the decoder.
func syntaxError(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("invalid JSON at byte %d: unexpected end", syntax.ByteOffset)
	}
	return fmt.Errorf("invalid JSON at byte %d", syntax.ByteOffset)
}

// path returns the place of a value for errors, such as messages[3].content. It is empty for the root.
func (d *Document) path(i int) (path string) {
	d.decoder.Reset(bytes.NewBuffer(d.body), options, jsontext.AllowInvalidUTF8(true))
	for int32(d.decoder.InputOffset()) <= d.nodes[i].start {
		if _, err := d.decoder.ReadToken(); err != nil {
			return ""
		}
	}
	for key := range d.decoder.StackPointer().Tokens() {
		if _, err := strconv.Atoi(key); err == nil {
			path += "[" + key + "]"
			continue
		}
		if path != "" {
			path += "."
		}
		path += key
	}
	return path
}

// Value is a value of a document. The zero value is a missing one: it reads as null.
type Value struct {
	d *Document
	i int
}

// node returns the node of the value.
func (v Value) node() node {
	if v.d == nil {
		return node{kind: 'n'}
	}
	return v.d.nodes[v.i]
}

// Kind returns '{', '[', '"', '0', 't', 'f', or 'n' for null and a missing value.
func (v Value) Kind(path ...string) jsontext.Kind { return v.Get(path...).node().kind }

// IsSet reports whether the value is neither missing nor null.
func (v Value) IsSet() bool { return v.Kind() != 'n' }

// IsMissing reports whether the value is not in the document.
func (v Value) IsMissing() bool { return v.d == nil || v.i == 0 }

// Elements yields the elements of a list. It yields nothing for other values.
func (v Value) Elements() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		n := v.node()
		if n.kind != '[' {
			return
		}
		for e := v.i + 1; e < int(n.next); e = int(v.d.nodes[e].next) {
			if !yield(Value{v.d, e}) {
				return
			}
		}
	}
}

// Len returns the number of elements of a list, and 0 for other values.
func (v Value) Len() (n int) {
	for range v.Elements() {
		n++
	}
	return n
}

// FirstElement returns the first element of a list. It is missing if the list is empty, and for other values.
func (v Value) FirstElement() Value {
	for first := range v.Elements() {
		return first
	}
	return Value{}
}

// Members yields the keys and values of an object. It yields nothing for other values.
func (v Value) Members() iter.Seq2[Value, Value] {
	return func(yield func(Value, Value) bool) {
		n := v.node()
		if n.kind != '{' {
			return
		}
		for k := v.i + 1; k < int(n.next); k = int(v.d.nodes[k+1].next) {
			if !yield(Value{v.d, k}, Value{v.d, k + 1}) {
				return
			}
		}
	}
}

// Names returns the names of the first members for an error, such as `"a", "b" and 3 more`.
func (v Value) Names() string {
	const limit = 8
	var list []string
	n := 0
	for key := range v.Members() {
		n++
		if n <= limit {
			list = append(list, fmt.Sprintf("%.40q", key.Text()))
		}
	}
	s := strings.Join(list, ", ")
	if n > limit {
		s += fmt.Sprintf(" and %d more", n-limit)
	}
	return s
}

// Get returns the value at a path of keys, or a missing value. Of a repeated key the last value counts, as for most parsers.
func (v Value) Get(path ...string) Value {
	for _, key := range path {
		v = v.member(key)
	}
	return v
}

// member returns the value of the last member with a key, or a missing value.
func (v Value) member(key string) Value {
	n := v.node()
	if n.kind != '{' {
		return Value{}
	}
	found := 0
	for k := v.i + 1; k < int(n.next); k = int(v.d.nodes[k+1].next) {
		at := v.d.nodes[k]
		name := v.d.body[at.start+1 : at.end-1]
		isEqual := string(name) == key
		if hasEscape := bytes.IndexByte(name, '\\') >= 0; hasEscape {
			isEqual = Value{v.d, k}.Text() == key
		}
		if isEqual {
			found = k + 1
		}
	}
	return Value{v.d, found}
}

// First returns the first of the members that is set, or a missing value.
func (v Value) First(keys ...string) Value {
	for _, key := range keys {
		if member := v.Get(key); member.IsSet() {
			return member
		}
	}
	return Value{}
}

// HasAny reports whether one of the members is set.
func (v Value) HasAny(keys ...string) bool { return v.First(keys...).IsSet() }

// HasAll reports whether all members are set.
func (v Value) HasAll(keys ...string) bool {
	for _, key := range keys {
		if !v.Get(key).IsSet() {
			return false
		}
	}
	return true
}

// Text returns the text at a path of keys, and "" for other values. Invalid UTF-8 and unpaired surrogates become U+FFFD.
func (v Value) Text(path ...string) string {
	v = v.Get(path...)
	if v.Kind() != '"' {
		return ""
	}
	raw := v.Raw()
	inner := raw[1 : len(raw)-1]
	if utf8.Valid(inner) && bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	text, _ := jsontext.AppendUnquote(nil, raw) // an error reports replaced characters
	return string(text)
}

// TextOrNumber returns the first of the members that is a string with text or a number, or "". It is for ids, because some servers
// number their calls, and for other texts that can be a number, such as an answer.
func (v Value) TextOrNumber(keys ...string) string {
	for _, key := range keys {
		member := v.Get(key)
		if text := member.Text(); text != "" {
			return text
		}
		if member.Kind() == '0' {
			return string(member.Raw())
		}
	}
	return ""
}

// FirstText returns the first of the members that is a string with text, or "".
func (v Value) FirstText(keys ...string) string {
	for _, key := range keys {
		if text := v.Text(key); text != "" {
			return text
		}
	}
	return ""
}

// Number returns the number at a path of keys, also one in a text, and 0 for other values.
func (v Value) Number(path ...string) float64 {
	v = v.Get(path...)
	text := v.Text()
	if v.Kind() == '0' {
		text = string(v.Raw())
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return 0
	}
	return f
}

// Int returns the integer at a path of keys, and 0 for negative numbers and other values.
func (v Value) Int(path ...string) int {
	v = v.Get(path...)
	if v.Kind() != '0' {
		return 0
	}
	return int(min(max(v.Number(), 0), math.MaxInt32))
}

// IsTrue reports whether the value at a path of keys is true.
func (v Value) IsTrue(path ...string) bool { return v.Kind(path...) == 't' }

// Mark returns the first of the members that is true or false, else nil.
func (v Value) Mark(keys ...string) *bool {
	for _, key := range keys {
		if kind := v.Kind(key); kind == 't' || kind == 'f' {
			return new(kind == 't')
		}
	}
	return nil
}

// Time returns the time at a path of keys: a text in the form of RFC 3339, which may have no zone and is UTC then, a number of seconds,
// milliseconds or nanoseconds since 1970, also in a text, or [seconds, nanoseconds]. It is zero for other values.
func (v Value) Time(path ...string) (t time.Time) {
	const year2286 = 1e10 // in seconds; larger numbers have another unit
	v = v.Get(path...)
	if v.Len() == 2 {
		var pair []int64
		for e := range v.Elements() {
			pair = append(pair, int64(e.Number()))
		}
		return time.Unix(pair[0], pair[1]).UTC()
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, v.Text()); err == nil {
			return t.UTC()
		}
	}
	n := v.Number()
	switch {
	case n <= 0 || n > math.MaxInt64:
		return time.Time{}
	case n < year2286:
		return time.UnixMicro(int64(n * 1e6)).UTC()
	case n < year2286*1000: // in milliseconds
		return time.UnixMilli(int64(n)).UTC()
	}
	nanoseconds, err := strconv.ParseInt(v.TextOrJSON(), 10, 64) // exact, which n is not
	if err != nil {
		nanoseconds = int64(n)
	}
	return time.Unix(0, nanoseconds).UTC()
}

// setCount sets n to the value if the value is a number.
func (v Value) setCount(n *int) {
	if v.Kind() == '0' {
		*n = v.Int()
	}
}

// setText sets s to the text at a key if s is still empty.
func (v Value) setText(s *string, key string) {
	if *s == "" {
		*s = v.Text(key)
	}
}

// Raw returns the bytes of the value, and nothing for a missing one.
func (v Value) Raw() []byte {
	if v.IsMissing() {
		return nil
	}
	n := v.node()
	return v.d.body[n.start:n.end]
}

// Compact returns the JSON of the value without spaces, and "" for null and a missing value.
func (v Value) Compact() string {
	var b bytes.Buffer
	if !v.IsSet() || json.Compact(&b, v.Raw()) != nil {
		return ""
	}
	return b.String()
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

// Want returns a member of a kind. A member may be missing or null. For one of another kind it notes a problem and returns a missing value.
func (v Value) Want(kind jsontext.Kind, key string) Value {
	member := v.Get(key)
	if got := member.Kind(); got == kind || got == 'n' {
		return member
	}
	article := "a"
	if kind == '{' {
		article = "an"
	}
	v.Note(key, "got a JSON %s, want %s %s", kindNames[member.Kind()], article, kindNames[kind])
	return Value{}
}

var kindNames = map[jsontext.Kind]string{'"': "string", '0': "number", '[': "list", '{': "object", 't': "bool", 'f': "bool", 'n': "null"}

// Note notes a problem of a member, or of the value itself if the key is empty. The document keeps the first problem.
func (v Value) Note(key, format string, args ...any) {
	if v.d == nil || v.d.problem != nil {
		return
	}
	path := v.d.path(v.i)
	if path != "" && key != "" {
		path += "."
	}
	path += key
	reason := fmt.Sprintf(format, args...)
	if path != "" {
		reason = "field " + path + ": " + reason
	}
	v.d.problem = errors.New(reason)
}

// Problem returns the first problem that was noted in the document of the value, or nil.
func (v Value) Problem() error {
	if v.d == nil {
		return nil
	}
	return v.d.problem
}

// WantObject notes a problem if the value is not an object, and reports whether it is.
func (v Value) WantObject() bool {
	if v.Kind() != '{' {
		v.Note("", "got a JSON %s, want an object", kindNames[v.Kind()])
	}
	return v.Kind() == '{'
}

package events

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Limits of a payload. They are far above the needs of any event: an execution is 5 levels deep, and the largest
// payload of Debrief is an import of 10,000 bullets. They limit the memory that the decoder allocates for a hostile
// message to about 130 MB. This is maxElements times 240 bytes, the size of an operation of a delta, which is the largest element.
const (
	maxDepth    = 32
	maxElements = 1 << 19 // a key and its value count as two
	maxBytes    = 64 << 20
)

// timeExt is the only allowed extension type: the MessagePack timestamp.
const timeExt = 0xff

var errTruncated = errors.New("unexpected end of data")

// limitError reports a well-formed value that exceeds a limit, or has a type that no event uses.
type limitError struct{ text string }

func (e *limitError) Error() string { return e.text }

func limitErrorf(format string, args ...any) error { return &limitError{fmt.Sprintf(format, args...)} }

// guard returns an error unless data is exactly one well-formed MessagePack value within the limits. It runs before
// every decode, because the library trusts declared lengths. For the five bytes dd ff ff ff ff it allocates
// gigabytes, and deep nesting overflows its stack. The program cannot recover from either
// (vmihailenco/msgpack#401). After guard, each declared count is at most the number of bytes that follow it.
//
// guard uses neither recursion nor heap memory.
func guard(data []byte) error {
	if len(data) > maxBytes {
		return limitErrorf("too large: %d bytes, at most %d are allowed", len(data), maxBytes)
	}
	end, err := walk(data, 0)
	if err == nil && end != len(data) {
		err = fmt.Errorf("byte %d: unexpected data after the value", end)
	}
	return err
}

// walk returns the end of the value that begins at byte i.
func walk(data []byte, i int) (end int, err error) {
	var (
		left     [maxDepth + 1]uint32 // left[d] is the number of values that must follow at depth d
		depth    int
		elements uint64
	)
	left[0] = 1
	for {
		for left[depth] == 0 {
			if depth == 0 {
				return i, nil
			}
			depth--
		}
		left[depth]--

		if i >= len(data) {
			return 0, errTruncated
		}
		l := &layouts[data[i]]
		if l.form == invalid {
			return 0, fmt.Errorf("byte %d: invalid first byte %#x of a value", i, data[i])
		}
		head := int(l.head)
		if len(data)-i < head {
			return 0, errTruncated
		}
		n := uint64(l.length(data[i:]))
		isTimeSize := n == 4 || n == 8 || n == 12
		if l.form == timestamp && (data[i+head-1] != timeExt || !isTimeSize) {
			return 0, limitErrorf("byte %d: unsupported extension type %d of %d bytes: want a timestamp", i, int8(data[i+head-1]), n)
		}
		begin := i
		i += head
		if l.form == mapping {
			n *= 2
		}
		if n > uint64(len(data)-i) {
			return 0, fmt.Errorf("byte %d: declared length %d, but only %d bytes follow", begin, n, len(data)-i)
		}
		if l.form == array || l.form == mapping {
			elements += n
			if elements > maxElements {
				return 0, limitErrorf("byte %d: more than %d elements", begin, maxElements)
			}
			depth++
			if depth > maxDepth {
				return 0, limitErrorf("byte %d: nested deeper than %d", begin, maxDepth)
			}
			left[depth] = uint32(n)
			continue
		}
		i += int(n)
	}
}

// RewriteStrings returns a copy of a MessagePack value in which rewrite has replaced each string, also the keys of
// maps. It needs no schema. It returns an error if data is not exactly one value within the limits.
func RewriteStrings(data []byte, rewrite func(string) string) ([]byte, error) {
	if err := guard(data); err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		c := data[i]
		l := &layouts[c]
		body := i + int(l.head)
		if l.form == array || l.form == mapping { // copy only the head; the elements follow
			out = append(out, data[i:body]...)
			i = body
			continue
		}
		end := body + l.length(data[i:])
		value := data[i:end]
		isString := c >= 0xa0 && c <= 0xbf || c >= 0xd9 && c <= 0xdb
		if isString {
			value = rewriteString(value, string(data[body:end]), rewrite)
		}
		out = append(out, value...)
		i = end
	}
	return out, nil
}

// rewriteString returns the encoded value of a rewritten text. The value is the same if rewrite does not change the text.
func rewriteString(value []byte, text string, rewrite func(string) string) []byte {
	rewritten := rewrite(text)
	if rewritten == text {
		return value
	}
	out := []byte{0xdb} // a string with a length of 4 bytes
	out = binary.BigEndian.AppendUint32(out, uint32(len(rewritten)))
	return append(out, rewritten...)
}

// keyAt returns the key whose value ends at or after offset, in the map that data encodes. It returns "" if no
// value ends there. Error messages need it, because the library does not report the position of an error.
func keyAt(data []byte, offset int) string {
	if len(data) == 0 || layouts[data[0]].form != mapping {
		return ""
	}
	for i := int(layouts[data[0]].head); i < len(data); {
		keyEnd, err := walk(data, i)
		if err != nil {
			return ""
		}
		end, err := walk(data, keyEnd)
		if err != nil {
			return ""
		}
		if offset <= end {
			return string(data[i+int(layouts[data[i]].head) : keyEnd])
		}
		i = end
	}
	return ""
}

// form is the meaning of the length in the head of a value.
type form uint8

const (
	invalid   form = iota // no value begins with this byte
	plain                 // a number of bytes
	timestamp             // a number of bytes; the last byte of the head is the extension type
	array                 // a number of values
	mapping               // a number of keys, each with a value
)

// layout describes the values that begin with a given byte of MessagePack. head is the length of the head in bytes, including that
// byte. The length of the rest is either fixed, or a big-endian number in the next size bytes.
type layout struct {
	form  form
	head  uint8
	size  uint8
	fixed uint8
}

// length returns the length that the head of a value declares, in the unit of its form.
func (l *layout) length(data []byte) int {
	switch l.size {
	case 1:
		return int(data[1])
	case 2:
		return int(binary.BigEndian.Uint16(data[1:]))
	case 4:
		return int(binary.BigEndian.Uint32(data[1:]))
	}
	return int(l.fixed)
}

// layouts has the layout for each first byte of a value.
var layouts = func() (t [256]layout) {
	fixed := func(f form, length uint8) layout { return layout{form: f, head: 1, fixed: length} }
	sized := func(f form, size uint8) layout { return layout{form: f, head: 1 + size, size: size} }
	for c := range t {
		switch n := uint8(c); {
		case n <= 0x7f, n >= 0xe0: // small integers
			t[c] = fixed(plain, 0)
		case n <= 0x8f:
			t[c] = fixed(mapping, n&0x0f)
		case n <= 0x9f:
			t[c] = fixed(array, n&0x0f)
		case n <= 0xbf: // short strings
			t[c] = fixed(plain, n&0x1f)
		}
	}
	t[0xc0] = fixed(plain, 0) // nil
	t[0xc2] = fixed(plain, 0) // false
	t[0xc3] = fixed(plain, 0) // true
	for i, size := range [...]uint8{1, 2, 4} {
		t[0xc4+i] = sized(plain, size)                                      // bytes
		t[0xd9+i] = sized(plain, size)                                      // strings
		t[0xc7+i] = layout{form: timestamp, head: 1 + size + 1, size: size} // extensions
	}
	for i := range 4 {
		t[0xcc+i] = fixed(plain, 1<<i) // unsigned integers
		t[0xd0+i] = fixed(plain, 1<<i) // signed integers
	}
	t[0xca] = fixed(plain, 4) // float32
	t[0xcb] = fixed(plain, 8) // float64
	for i := range 5 {
		t[0xd4+i] = layout{form: timestamp, head: 2, fixed: 1 << i} // extensions of fixed length
	}
	t[0xdc] = sized(array, 2)
	t[0xdd] = sized(array, 4)
	t[0xde] = sized(mapping, 2)
	t[0xdf] = sized(mapping, 4)
	return t
}()

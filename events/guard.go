package events

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds of a payload. They are far above what any event needs (an execution is 5 deep) and keep the most that a
// hostile message makes the decoder allocate near 130 MB: the largest element, a delta's operation, has 240 bytes. An
// import of 10,000 bullets is the largest that we send ourselves.
const (
	maxDepth    = 32
	maxElements = 1 << 19 // a key and its value are two
	maxBytes    = 64 << 20
)

// timeExt is the one extension type on our wire: MessagePack's timestamp.
const timeExt = 0xff

var errTruncated = errors.New("ends in the middle of a value")

// guard reports why data is not exactly one well-formed MessagePack value within bounds. It runs before every decode,
// because the library trusts declared lengths: it answers the five bytes dd ff ff ff ff with an allocation of
// gigabytes and deep nesting with a stack overflow, and neither can be recovered from (vmihailenco/msgpack#401).
// After guard, every declared count is at most the number of bytes that follow it.
//
// It walks the bytes without recursion and without allocating.
func guard(data []byte) error {
	if len(data) > maxBytes {
		return fmt.Errorf("has %d bytes, more than %d", len(data), maxBytes)
	}
	end, err := walk(data, 0)
	if err == nil && end != len(data) {
		err = fmt.Errorf("byte %d: data after the end of the value", end)
	}
	return err
}

// walk is the end of the value that begins at byte i.
func walk(data []byte, i int) (end int, err error) {
	var (
		left     [maxDepth + 1]uint32 // left[d] is how many values are still to come at depth d
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
		c := data[i]
		k := &kinds[c]
		head := int(k.head)
		if len(data)-i < head {
			return 0, errTruncated
		}
		n := uint64(k.length(data[i:]))
		if k.form == invalid {
			return 0, fmt.Errorf("byte %d: %#x begins no value", i, c)
		}
		if k.form == timestamp && (data[i+head-1] != timeExt || n != 4 && n != 8 && n != 12) {
			return 0, fmt.Errorf("byte %d: extension type %d of %d bytes is not a timestamp", i, int8(data[i+head-1]), n)
		}
		at := i
		i += head
		if k.form == mapping {
			n *= 2
		}
		if n > uint64(len(data)-i) {
			return 0, fmt.Errorf("byte %d: declares %d more than the %d bytes that follow", at, n, len(data)-i)
		}
		if k.form == array || k.form == mapping {
			if elements += n; elements > maxElements {
				return 0, fmt.Errorf("byte %d: more than %d elements", at, maxElements)
			}
			if depth++; depth > maxDepth {
				return 0, fmt.Errorf("byte %d: nested deeper than %d", at, maxDepth)
			}
			left[depth] = uint32(n)
			continue
		}
		i += int(n)
	}
}

// RewriteStrings returns a MessagePack value with each string replaced by what rewrite returns for it, keys of maps
// included. It needs no schema. Data that is not one value within bounds is an error.
func RewriteStrings(data []byte, rewrite func(string) string) ([]byte, error) {
	if err := guard(data); err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); {
		c, k := data[i], &kinds[data[i]]
		n := k.length(data[i:])
		body := i + int(k.head)
		if k.form == array || k.form == mapping {
			out = append(out, data[i:body]...)
			i = body
			continue
		}
		end, text := body+n, ""
		isString := c >= 0xa0 && c <= 0xbf || c >= 0xd9 && c <= 0xdb
		if isString {
			text = rewrite(string(data[body:end]))
		}
		if isString && text != string(data[body:end]) {
			out = append(binary.BigEndian.AppendUint32(append(out, 0xdb), uint32(len(text))), text...)
		} else {
			out = append(out, data[i:end]...)
		}
		i = end
	}
	return out, nil
}

// keyAt is the key, in the map that data is, whose value the byte before offset belongs to; "" if there is none. It
// serves error messages: the library says what it cannot decode and not where.
func keyAt(data []byte, offset int) string {
	if len(data) == 0 || kinds[data[0]].form != mapping {
		return ""
	}
	for i := int(kinds[data[0]].head); i < len(data); {
		keyEnd, err := walk(data, i)
		if err != nil {
			return ""
		}
		end, err := walk(data, keyEnd)
		if err != nil {
			return ""
		}
		if offset <= end {
			return string(data[min(i+int(kinds[data[i]].head), keyEnd):keyEnd])
		}
		i = end
	}
	return ""
}

// form is how the bytes after a value's head are to be read.
type form uint8

const (
	invalid   form = iota
	plain          // that many bytes
	timestamp      // that many bytes, of the extension type in the head's last byte
	array          // that many values
	mapping        // twice that many values
)

// kind describes the values that begin with a byte: the length of their head, that byte included, and where the
// length of the rest is: in the size bytes after the first, or fixed.
type kind struct {
	form  form
	head  uint8
	size  uint8
	fixed uint8
}

// length is the length that the head of a value declares, in the unit of its form.
func (k *kind) length(data []byte) int {
	switch k.size {
	case 1:
		return int(data[1])
	case 2:
		return int(binary.BigEndian.Uint16(data[1:]))
	case 4:
		return int(binary.BigEndian.Uint32(data[1:]))
	}
	return int(k.fixed)
}

var kinds = func() (t [256]kind) {
	for c := range t {
		switch n := uint8(c); {
		case n <= 0x7f, n >= 0xe0: // small integers
			t[c] = kind{plain, 1, 0, 0}
		case n <= 0x8f:
			t[c] = kind{mapping, 1, 0, n & 0x0f}
		case n <= 0x9f:
			t[c] = kind{array, 1, 0, n & 0x0f}
		case n <= 0xbf: // short strings
			t[c] = kind{plain, 1, 0, n & 0x1f}
		}
	}
	t[0xc0] = kind{plain, 1, 0, 0} // nil
	t[0xc2] = kind{plain, 1, 0, 0} // false
	t[0xc3] = kind{plain, 1, 0, 0} // true
	for i, size := range [...]uint8{1, 2, 4} {
		t[0xc4+i] = kind{plain, 1 + size, size, 0}     // bytes
		t[0xd9+i] = kind{plain, 1 + size, size, 0}     // strings
		t[0xc7+i] = kind{timestamp, 2 + size, size, 0} // extensions
	}
	for i := range 4 {
		t[0xcc+i] = kind{plain, 1, 0, 1 << i} // unsigned integers
		t[0xd0+i] = kind{plain, 1, 0, 1 << i} // signed integers
	}
	t[0xca] = kind{plain, 1, 0, 4} // float32
	t[0xcb] = kind{plain, 1, 0, 8} // float64
	for i := range 5 {
		t[0xd4+i] = kind{timestamp, 2, 0, 1 << i} // extensions of fixed length
	}
	t[0xdc], t[0xdd] = kind{array, 3, 2, 0}, kind{array, 5, 4, 0}
	t[0xde], t[0xdf] = kind{mapping, 3, 2, 0}, kind{mapping, 5, 4, 0}
	return t
}()

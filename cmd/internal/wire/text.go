package wire

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// str adds the string whose opening quote is at pos.
func (d *document) str(start int) (int, error) {
	escaped := false
	for pos := start + 1; ; {
		pos = plainRun(d.body, pos)
		switch d.at(pos) {
		case '"':
			return d.add(kindString, escaped, start, pos+1)
		case '\\':
			n := escapeLength(d.body[pos:])
			if n == 0 {
				return pos, invalid(pos)
			}
			escaped, pos = true, pos+n
		default:
			return pos, invalid(pos) // a control character or the end
		}
	}
}

// plainRun returns the position of the first quote, backslash or control character from pos on, or the length of the body.
// It looks at eight bytes at a time, because strings are the largest part of a request.
func plainRun(body []byte, pos int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; pos+8 <= len(body); pos += 8 {
		w := binary.LittleEndian.Uint64(body[pos:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// A byte of a word is zero if its top bit is set here. Only bytes above such a byte can be set by mistake.
		found := ((quote - ones) &^ quote) | ((slash - ones) &^ slash) | ((w - ones*' ') &^ w)
		if found &= tops; found != 0 {
			return pos + bits.TrailingZeros64(found)/8
		}
	}
	for ; pos < len(body); pos++ {
		if c := body[pos]; c == '"' || c == '\\' || c < ' ' {
			return pos
		}
	}
	return pos
}

// escapeLength returns the length of the escape sequence at the start of s, or 0 if it is invalid.
func escapeLength(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if hex4(s[2:]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 returns the value of the four hexadecimal digits at the start of s, or -1.
func hex4(s []byte) rune {
	if len(s) < 4 {
		return -1
	}
	var r rune
	for _, c := range s[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// text returns the text of a string, and "" for other values. Invalid UTF-8 and unpaired surrogates become U+FFFD.
func (d *document) text(v int) string {
	n := d.nodes[v]
	if n.kind != kindString {
		return ""
	}
	if raw := d.body[n.start+1 : n.end-1]; !n.escaped && utf8.Valid(raw) {
		return string(raw)
	}
	d.scratch = appendUnescaped(d.scratch[:0], d.body[n.start+1:n.end-1])
	if utf8.Valid(d.scratch) {
		return string(d.scratch)
	}
	return string([]rune(string(d.scratch)))
}

// appendUnescaped appends raw with its escape sequences replaced. The scanner has checked them.
func appendUnescaped(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 {
			return append(dst, raw...)
		}
		dst, raw = append(dst, raw[:i]...), raw[i:]
		if raw[1] != 'u' {
			dst, raw = append(dst, unescape(raw[1])), raw[2:]
			continue
		}
		r := hex4(raw[2:])
		raw = raw[6:]
		if utf16.IsSurrogate(r) {
			pair := rune(utf8.RuneError)
			if len(raw) >= 6 && raw[0] == '\\' && raw[1] == 'u' {
				pair = utf16.DecodeRune(r, hex4(raw[2:]))
			}
			if r = pair; r != utf8.RuneError {
				raw = raw[6:]
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// unescape returns the character of a two-byte escape sequence.
func unescape(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

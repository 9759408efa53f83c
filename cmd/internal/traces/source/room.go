package source

// withRoom returns buf with room for at least n more bytes. It doubles the capacity up to limit, or further if n requires
// it. Append alone grows large buffers by a quarter, and leaves about four times the size of a long line as garbage.
func withRoom(buf []byte, n, limit int) []byte {
	need := len(buf) + n
	if need <= cap(buf) {
		return buf
	}
	grown := make([]byte, len(buf), max(need, min(2*cap(buf), limit)))
	copy(grown, buf)
	return grown
}

// Package room grows the buffers in which a file is read piece by piece, such as a line of a trace or of tasks.
package room

// For is buf with room for n bytes more. Where there is none it has twice the room, but not more than limit, unless n
// needs it: append alone grows what is large by a quarter, and leaves four times a large line behind as garbage.
func For(buf []byte, n, limit int) []byte {
	need := len(buf) + n
	if need <= cap(buf) {
		return buf
	}
	grown := make([]byte, len(buf), max(need, min(2*cap(buf), limit)))
	copy(grown, buf)
	return grown
}

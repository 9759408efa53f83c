package source

import (
	"bytes"
	"testing"
)

// TestWithRoomKeepsContents adds single bytes and pieces: the contents stay, and the capacity doubles up to the limit.
func TestWithRoomKeepsContents(t *testing.T) {
	const limit = 10_000
	for _, piece := range []int{1, 3, 4096, 2 * limit} {
		var buf, want []byte
		grown := 0
		for i := 0; len(want) < limit; i++ {
			part := bytes.Repeat([]byte{byte(i)}, piece)
			before := cap(buf)
			buf = append(withRoom(buf, piece, limit), part...)
			want = append(want, part...)
			if cap(buf) != before {
				grown++
			}
		}
		if !bytes.Equal(buf, want) {
			t.Errorf("pieces of %d: %d bytes differ from what was added", piece, len(buf))
		}
		if cap(buf) > limit+piece || grown > 15 {
			t.Errorf("pieces of %d: room for %d, grown %d times, want at most %d and 15", piece, cap(buf), grown, limit+piece)
		}
	}
}

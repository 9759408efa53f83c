package deltalog

// SmallHeads sets the size of the recent bullets in the heads that the store writes. A bullet of the tests takes 100 to 200 bytes.
func (s *Store) SmallHeads(size int) { s.maxRecent = size }

package cli

// First returns the first rows, up to the limit, and the number of the others. A limit of 0 means all.
func First[T any](all []T, limit int) (shown []T, more int) {
	if limit <= 0 || len(all) <= limit {
		return all, 0
	}
	return all[:limit], len(all) - limit
}

// Last returns the last rows, up to the limit, and the number of the others. A limit of 0 means all.
func Last[T any](all []T, limit int) (shown []T, older int) {
	if limit <= 0 || len(all) <= limit {
		return all, 0
	}
	older = len(all) - limit
	return all[older:], older
}

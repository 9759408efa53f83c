package train

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// Each calls do for 0 to n-1, at most atOnce at the same time, until one of them fails. It returns the first error.
func Each(n, atOnce int, do func(i int) error) error {
	all, failed := errgroup.WithContext(context.Background())
	all.SetLimit(atOnce)
	for i := 0; i < n && failed.Err() == nil; i++ {
		all.Go(func() error { return do(i) })
	}
	return all.Wait()
}

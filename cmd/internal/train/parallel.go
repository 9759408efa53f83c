package train

import "sync"

// publishing is the number of runs that are stored at the same time. The server syncs several writes at once.
const publishing = 32

// parallel runs functions at the same time, up to a limit, and keeps the first error.
type parallel struct {
	free chan struct{}
	all  sync.WaitGroup
	mu   sync.Mutex
	err  error
}

func newParallel(limit int) *parallel { return &parallel{free: make(chan struct{}, limit)} }

// do starts a function when there is room. It returns the first error so far, and then starts nothing.
func (p *parallel) do(fn func() error) error {
	p.free <- struct{}{}
	if err := p.failed(); err != nil {
		<-p.free
		return err
	}
	p.all.Go(func() {
		defer func() { <-p.free }()
		if err := fn(); err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.err == nil {
				p.err = err
			}
		}
	})
	return nil
}

func (p *parallel) failed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// wait waits for all functions and returns the first error.
func (p *parallel) wait() error {
	p.all.Wait()
	return p.failed()
}

// inOrder calls a function for values, one after the other, while the caller prepares the next ones.
type inOrder[T any] struct {
	values chan T
	done   chan struct{}
}

// waitingValues limits the prepared values in memory.
const waitingValues = 16

func newInOrder[T any](fn func(T)) *inOrder[T] {
	o := &inOrder[T]{make(chan T, waitingValues), make(chan struct{})}
	go func() {
		defer close(o.done)
		for v := range o.values {
			fn(v)
		}
	}()
	return o
}

// do passes a value to the function. It waits while too many values wait.
func (o *inOrder[T]) do(v T) { o.values <- v }

// wait waits for the last value. No value may follow.
func (o *inOrder[T]) wait() {
	close(o.values)
	<-o.done
}

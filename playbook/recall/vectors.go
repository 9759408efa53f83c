package recall

import (
	"errors"
	"math"
	"runtime"
	"sync"

	"github.com/viterin/vek/vek32"
)

// slabRows is the number of rows in a slab. With slabs, more vectors need no copy of the existing ones.
const slabRows = 64

// vectors holds the vectors of one model. All have the same dimension, and length 1, so the dot product of two vectors is their cosine
// similarity. When a row is removed, the last row moves into its place.
type vectors struct {
	model     string
	dimension int
	slabs     [][]float32 // of slabRows rows each
	owners    []uint32    // item numbers by row
}

// row returns the vector in a row.
func (v *vectors) row(i uint32) []float32 {
	slab, from := v.slabs[i/slabRows], int(i%slabRows)*v.dimension
	return slab[from : from+v.dimension]
}

// add stores a vector of unit length and returns its row.
func (v *vectors) add(owner uint32, unit []float32) uint32 {
	row := uint32(len(v.owners))
	if row%slabRows == 0 {
		v.slabs = append(v.slabs, make([]float32, slabRows*v.dimension))
	}
	v.owners = append(v.owners, owner)
	copy(v.row(row), unit)
	return row
}

// drop removes a row and moves the last row into its place. It returns the owner of the last row, which may be the removed one.
func (v *vectors) drop(row uint32) (moved uint32) {
	last := uint32(len(v.owners) - 1)
	copy(v.row(row), v.row(last))
	moved = v.owners[last]
	v.owners[row] = moved
	v.owners = v.owners[:last]
	if last%slabRows == 0 { // the last slab is empty
		v.slabs[last/slabRows] = nil
		v.slabs = v.slabs[:last/slabRows]
	}
	return moved
}

// minWorkPerWorker is the number of multiplications that justify a goroutine, about 0.2 ms of work.
const minWorkPerWorker = 1 << 20

// compare returns the similarity of a unit vector to the vector in each of the rows, or in all rows if rows is nil. It is the dot product. For
// large inputs compare uses all processors.
func (v *vectors) compare(unit []float32, rows []uint32) []float32 {
	n := len(v.owners)
	if rows != nil {
		n = len(rows)
	}
	similarities := make([]float32, n)
	scan := func(from, to int) {
		for i := from; i < to; i++ {
			row := uint32(i)
			if rows != nil {
				row = rows[i]
			}
			similarities[i] = vek32.Dot(unit, v.row(row))
		}
	}
	workers := min(runtime.GOMAXPROCS(0), 1+n*v.dimension/minWorkPerWorker)
	var others sync.WaitGroup
	for i := 1; i < workers; i++ {
		others.Go(func() { scan(n*i/workers, n*(i+1)/workers) })
	}
	scan(0, n/workers)
	others.Wait()
	return similarities
}

// dot returns the dot product in double precision. Each product of single-precision numbers is exact, only the sum is
// rounded.
func dot(x, y []float32) (sum float64) {
	for i := range x {
		sum += float64(x[i]) * float64(y[i])
	}
	return sum
}

var errNotFinite = errors.New("vector contains a number that is not finite")

// normalize returns the vector scaled to length 1 in single precision, or nil for an empty vector or one of zeros. It returns an error for a
// vector with a number that is not finite.
func normalize(vector []float32) ([]float32, error) {
	length := math.Sqrt(dot(vector, vector))
	switch {
	case math.IsNaN(length) || math.IsInf(length, 0):
		return nil, errNotFinite
	case length == 0:
		return nil, nil
	}
	u := make([]float32, len(vector))
	for i, x := range vector {
		u[i] = float32(float64(x) / length)
	}
	return u, nil
}

package recall

import (
	"errors"
	"math"
	"runtime"
	"sync"

	"github.com/viterin/vek/vek32"
)

// slabRows is the number of rows in a slab. Slabs are filled in order and never move, so growing copies no vectors.
const slabRows = 64

// vectors holds the vectors of one model. All have the same dimension and unit length, so the dot product of two is their cosine. There are no
// free rows: the last row moves into the place of a removed one.
type vectors struct {
	model     string
	dimension int
	slabs     [][]float32
	owners    []uint32 // item numbers by row
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

// drop removes a row and moves the last row into its place. It returns the owner of the moved row. If the removed row is
// the last one, it returns the owner of the removed row.
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

// compare writes the similarity of a unit vector to each of the rows into similarities, which has one element for each. Nil rows means all
// rows. For large inputs it uses all processors.
func (v *vectors) compare(unit []float32, rows []uint32, similarities []float32) {
	scan := func(from, to int) {
		for i := from; i < to; i++ {
			row := uint32(i)
			if rows != nil {
				row = rows[i]
			}
			similarities[i] = vek32.Dot(unit, v.row(row))
		}
	}
	n := len(similarities)
	workers := min(runtime.GOMAXPROCS(0), 1+n*v.dimension/minWorkPerWorker)
	var others sync.WaitGroup
	for i := 1; i < workers; i++ {
		others.Go(func() { scan(n*i/workers, n*(i+1)/workers) })
	}
	scan(0, n/workers)
	others.Wait()
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

// normalize returns the vector scaled to length 1 in single precision, or nil for a vector of zeros.
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

package recall

import (
	"errors"
	"math"
	"runtime"
	"sync"

	"github.com/viterin/vek/vek32"
)

// rows in a slab. Slabs are filled one after another and never move, so that growing copies nothing.
const slabRows = 64

// vectors are those of one model, all of one dimension and of unit length, so that a dot product is their cosine. The
// rows have no holes: the last one takes the place of one that goes.
type vectors struct {
	model     string
	dimension int
	slabs     [][]float32
	owners    []uint32 // by row
}

func (v *vectors) row(i uint32) []float32 {
	slab, from := v.slabs[i/slabRows], int(i%slabRows)*v.dimension
	return slab[from : from+v.dimension]
}

// add keeps a vector of unit length and returns its row.
func (v *vectors) add(owner uint32, unit []float32) uint32 {
	row := uint32(len(v.owners))
	if row%slabRows == 0 {
		v.slabs = append(v.slabs, make([]float32, slabRows*v.dimension))
	}
	v.owners = append(v.owners, owner)
	copy(v.row(row), unit)
	return row
}

// drop removes a row and returns whose row is there now; it may be the same owner's that went.
func (v *vectors) drop(row uint32) (moved uint32) {
	last := uint32(len(v.owners) - 1)
	copy(v.row(row), v.row(last))
	moved = v.owners[last]
	v.owners[row] = moved
	v.owners = v.owners[:last]
	if last%slabRows == 0 {
		v.slabs[last/slabRows] = nil
		v.slabs = v.slabs[:last/slabRows]
	}
	return moved
}

// multiplications that are worth a goroutine: some 0.2 ms of work.
const perWorker = 1 << 20

// compare sets each similarity to that of a vector of unit length and a row. Rows are those that are named, all if
// none are. It uses all processors if there is enough to do.
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
	workers := min(runtime.GOMAXPROCS(0), 1+n*v.dimension/perWorker)
	var others sync.WaitGroup
	for i := 1; i < workers; i++ {
		others.Go(func() { scan(n*i/workers, n*(i+1)/workers) })
	}
	scan(0, n/workers)
	others.Wait()
}

// dot is the product in double precision: of single-precision numbers that is exact but for the sum.
func dot(x, y []float32) (sum float64) {
	for i := range x {
		sum += float64(x[i]) * float64(y[i])
	}
	return sum
}

var errNoNumber = errors.New("vector holds what is no finite number")

// unit is a vector brought to length 1, in single precision; nil for one without a direction.
func unit(vector []float32) ([]float32, error) {
	length := math.Sqrt(dot(vector, vector))
	switch {
	case math.IsNaN(length) || math.IsInf(length, 0):
		return nil, errNoNumber
	case length == 0:
		return nil, nil
	}
	u := make([]float32, len(vector))
	for i, x := range vector {
		u[i] = float32(float64(x) / length)
	}
	return u, nil
}

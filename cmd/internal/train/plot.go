package train

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"debrief/cmd/internal/stats"
)

// measured is the accuracy after an epoch.
type measured struct {
	epoch    int
	accuracy stats.Estimate
}

// Size of a plot: rows from 0 to 100 %, and columns of measurements.
const (
	plotRows    = 9
	plotColumns = 36
)

// plot draws each measurement as a mark with its interval. Nothing connects the marks, because nothing was measured between
// them. Of more measurements than columns it draws some at equal distances, the first and the last included.
func plot(caption string, all []measured) string {
	points := all
	if len(all) > plotColumns {
		points = make([]measured, plotColumns)
		for i := range points {
			points[i] = all[i*(len(all)-1)/(plotColumns-1)]
		}
	}
	gap := max(1, min(6, plotColumns/max(len(points), 1)))
	cells := make([][]byte, plotRows)
	for i := range cells {
		cells[i] = []byte(strings.Repeat(" ", gap*len(points)))
	}
	at := func(share float64) int { return int((1-share)*(plotRows-1) + 0.5) }
	for i, p := range points {
		column := i*gap + gap/2
		for row := at(p.accuracy.High); row <= at(p.accuracy.Low); row++ {
			cells[row][column] = '|'
		}
		cells[at(p.accuracy.Mean)][column] = 'o'
	}
	var out strings.Builder
	out.WriteString(caption + "\n")
	for i, row := range cells {
		label := ""
		if i%2 == 0 {
			label = fmt.Sprintf("%.0f", 100-100*float64(i)/(plotRows-1))
		}
		fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%3s ┤%s", label, row), " "))
	}
	out.WriteString("     " + axis(points, gap))
	return out.String()
}

// axis returns the numbers of the epochs below their marks, as far as they have room.
func axis(points []measured, gap int) string {
	line := ""
	for i, p := range points {
		label := strconv.Itoa(p.epoch)
		if column := i*gap + gap/2; i == 0 || column > len(line) {
			line += strings.Repeat(" ", column-len(line)) + label
		}
	}
	return line
}

// besideColumn is the column of the right one of two blocks.
const besideColumn = 52

// beside joins two blocks of text side by side, or one below the other if a width is too small; 0 is any width.
func beside(width int, left, right string) string {
	if width > 0 && width < 2*besideColumn-4 {
		return left + "\n\n" + right + "\n"
	}
	l, r := strings.Split(left, "\n"), strings.Split(right, "\n")
	var out strings.Builder
	for i := range max(len(l), len(r)) {
		line := ""
		if i < len(l) {
			line = l[i]
		}
		if i < len(r) {
			line += strings.Repeat(" ", max(besideColumn-utf8.RuneCountInString(line), 1)) + r[i]
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}

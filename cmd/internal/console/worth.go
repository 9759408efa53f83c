package console

import (
	"math"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/worth"
)

// worthView is the comparison of a playbook with its control group.
type worthView struct {
	worth.Report
	Time time.Time
}

// worthOf reads the comparison of a playbook.
func (q *request) worthOf(book string) (*worthView, error) {
	v := &worthView{Time: time.Now()}
	return v, q.get(api.Path("books", book, "worth"), nil, &v.Report)
}

func showWorth(q *request) (any, error) {
	q.title = "Worth of " + q.book
	return q.worthOf(q.book)
}

// verdicts are the answers in a word, with the class that gives each its mark and colour.
var verdicts = map[worth.Status]option{
	worth.Off: {"unknown", "not measured"}, worth.Collecting: {"partial", "not known yet"}, worth.Unclear: {"partial", "not decided yet"},
	worth.Helps: {"success", "helps"}, worth.Harms: {"failure", "harms"}, worth.NoEffect: {"unknown", "makes no difference"},
}

// Verdict returns the answer in a word.
func (v *worthView) Verdict() option { return verdicts[v.Status] }

// Chart returns the chart of the effect with its interval, nil before an effect is measured.
func (v *worthView) Chart() *interval {
	effect := v.Points // in percentage points; the chart is in shares of 1
	if effect == nil {
		return nil
	}
	end := math.Ceil(max(-effect.Low, effect.High, 10)/10) / 10 // the axis ends at a multiple of ten points
	return &interval{Value: effect.Mean / 100, Low: effect.Low / 100, High: effect.High / 100, From: -end, To: end}
}

// Arms returns the sessions with the playbook, and without it.
func (v *worthView) Arms() [2]worth.Arm { return [2]worth.Arm{v.With, v.Without} }

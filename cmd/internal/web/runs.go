package web

import (
	"net/url"

	"debrief/cmd/internal/replay"
)

// runPages are the pages of the runs of train.
func runPages() []view {
	return []view{
		{pattern: "/runs", file: "runs", tab: "runs", run: showRuns},
		{pattern: "/runs/{run}", file: "run", tab: "runs", run: showRun},
	}
}

func showRuns(q *request) (any, error) {
	q.title = "Runs"
	all := new(list[replay.RunState])
	values := url.Values{"limit": {"50"}}
	if after := q.param("after"); after != "" {
		values.Set("after", after)
	}
	return all, q.api.get("/runs", values, all)
}

func showRun(q *request) (any, error) {
	q.title = "Run " + q.PathValue("run")
	r := new(replay.RunState)
	return r, q.api.get(pathOf("runs", q.PathValue("run")), nil, r)
}

package web

// homePages are the pages about the whole installation at a glance.
func homePages() []view {
	return []view{{pattern: "/{$}", file: "home", tab: "home", run: home}}
}

func home(q *request) (any, error) {
	q.title = "Overview"
	return nil, nil
}

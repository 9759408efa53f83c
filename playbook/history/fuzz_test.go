package history_test

import (
	"encoding/json"
	"testing"

	"debrief/playbook"
	"debrief/playbook/history"
)

// For any valid log, also one that no Curator wrote, every function returns a result or an error.
func FuzzAnyLog(f *testing.F) {
	sample, err := json.Marshal(sampleLog(f).deltas)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sample)
	f.Add([]byte(`[{"operations":[{"type":"MERGE","bullet_id":"a","content":"c","source_ids":["a","a","b"]}]},{"restored_version":9},{"restored_version":0}]`))
	f.Add([]byte(`[{"change_id":"c","more":true,"operations":[{"type":"REMOVE","bullet_id":"a"}]},{"change_id":"c","forget":{"source":"s"}}]`))
	f.Add([]byte(`[{"covers":[{"id":"r","evidence":{"execution":"x","source":"s"}}],"rejected":[{"operation":{"support":[-1,7]},"duplicate_of":"a"}]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var deltas []*playbook.Delta
		if json.Unmarshal(data, &deltas) != nil {
			return
		}
		k := &logWriter{TB: t}
		for _, d := range deltas {
			if d == nil {
				continue
			}
			if d.Version, d.PrevChain = k.newest()+1, nil; d.Version > 1 {
				d.PrevChain = []byte{1}
			}
			if d.Validate() == nil {
				k.append(d)
			}
		}
		callEverything(t, k)
	})
}

func callEverything(t *testing.T, k *logWriter) {
	ids, executions := map[playbook.BulletID]bool{}, map[string]bool{"": true}
	for _, d := range k.deltas {
		for _, op := range d.Ops {
			ids[op.Bullet] = true
		}
		for _, c := range d.Covers {
			if c.Evidence != nil {
				executions[c.Evidence.Execution] = true
			}
		}
	}
	for id := range ids {
		l, err := history.LineageOf(k.log, id)
		if err == nil && (len(l.Events) == 0 || (l.Current == nil) != (l.RemovedBy != nil)) {
			t.Fatalf("%s: %d events, is %v, ended by %v", id, len(l.Events), l.Current, l.RemovedBy)
		}
	}
	for handle := range executions {
		if _, err := history.TraceOf(k.log, handle); err != nil {
			t.Fatal(err)
		}
	}
	origins, err := history.Origins(k.log, &k.p)
	if err != nil || len(origins) > k.p.Len() {
		t.Fatalf("%d origins of %d bullets, %v", len(origins), k.p.Len(), err)
	}
	if _, err := history.Rejections(k.log); err != nil {
		t.Fatal(err)
	}
	for v := range k.newest() + 1 {
		if p, newest, err := history.StateAt(k.log, v); err == nil && (p.Version() != v || newest != k.newest()) {
			t.Fatalf("asked for version %d of %d, got %d of %d", v, k.newest(), p.Version(), newest)
		}
	}
	for handle := range executions {
		f, err := history.Forget(k.log, playbook.Selector{Execution: handle})
		if err == nil && f.Newest != k.newest() {
			t.Fatalf("newest: got %d, want %d", f.Newest, k.newest())
		}
	}
}

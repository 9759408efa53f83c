package train

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/runs"
	"debrief/events/deltalog"
)

// The tests here learn from the real runs of other projects, which are stored outside the checkout. The real runs teach nothing. Remedies
// that are planted among them are learned if they worked in two tasks.

// plantedCall is one call of a planted run. A "#" in its texts becomes a number of the task. A call whose output begins with "!" failed.
type plantedCall struct{ tool, arguments, output string }

// planted are unlike kinds of remedies: an error, what changed, and the call that worked. want is a part of the bullet.
var planted = []struct {
	kind  string
	calls []plantedCall
	want  string
}{
	{"wrong flag", []plantedCall{
		{"Bash", `{"command":"infra apply -approve plan#.out"}`, "!Error: flag provided but not defined: -approve"},
		{"Bash", `{"command":"infra apply -auto-approve plan#.out"}`, "applied plan #"},
	}, "`-auto-approve`"},
	{"missing flag", []plantedCall{
		{"Bash", `{"command":"registry push image#:latest"}`, "!error: refusing a push over plain http, failed"},
		{"Bash", `{"command":"registry push --insecure image#:latest"}`, "pushed"},
	}, "`--insecure`"},
	{"missing argument", []plantedCall{
		{"create_ticket", `{"title":"printer # is jammed"}`, "!Error: missing required field: priority"},
		{"create_ticket", `{"title":"printer # is jammed","priority":"p#"}`, "ticket #"},
	}, "give `priority`"},
	{"wrong date format", []plantedCall{
		{"list_slots", `{"clinic":"north-#","date":"05/1#/2031"}`, "!Error: the date is invalid"},
		{"list_slots", `{"clinic":"north-#","date":"2031-05-1#"}`, "08:15, 09:30"},
	}, "in the form `<n>-<n>-<n>`"},
	{"missing call before", []plantedCall{
		{"checkout", `{"cart":"cart-#"}`, "!Error: this cart is not ready yet"},
		{"set_shipping", `{"cart":"cart-#","method":"road"}`, "saved"},
		{"checkout", `{"cart":"cart-#"}`, "order placed"},
	}, "call `set_shipping`"},
	{"missing session", []plantedCall{
		{"fetch_mail", `{"folder":"inbox-#"}`, "!401 Unauthorized"},
		{"sign_in", `{}`, "signed in"},
		{"fetch_mail", `{"folder":"inbox-#"}`, "3 mails"},
	}, "call `sign_in`"},
	{"relative path", []plantedCall{
		{"load_sheet", `{"path":"reports/q#.xlsx"}`, "!ValueError: unsupported path"},
		{"load_sheet", `{"path":"/srv/reports/q#.xlsx"}`, "12 rows"},
	}, "absolute path"},
	{"wrong unit", []plantedCall{
		{"set_timeout", `{"job":"job-#","timeout":#000}`, "!Error: timeout is too large"},
		{"set_timeout", `{"job":"job-#","timeout":#}`, "ok"},
	}, "divide `timeout` by `1000`"},
	{"named unit", []plantedCall{
		{"ship_parcel", `{"parcel":"par-#","weight":"2#","unit":"lb"}`, "!Error: unknown unit lb, expected kg"},
		{"ship_parcel", `{"parcel":"par-#","weight":"2#","unit":"kg"}`, "label printed"},
	}, "set `unit` to `kg`"},
	{"value of a list", []plantedCall{
		{"set_state", `{"order":"ord-#","state":"finished#"}`, "!Error: state must be one of: open, done, void"},
		{"set_state", `{"order":"ord-#","state":"done"}`, "saved"},
	}, "set `state` to `done`"},
	{"form of an id", []plantedCall{
		{"get_invoice", `{"invoice":"77#","year":"2031"}`, "!Error: invoice not found"},
		{"get_invoice", `{"invoice":"INV-77#","year":"2031"}`, "total 12.50"},
	}, "in the form `INV-<n>`"},
	{"paging", []plantedCall{
		{"list_contacts", `{"book":"team-#"}`, "!Error: too many results"},
		{"list_contacts", `{"book":"team-#","page":1,"page_size":2#}`, "20 contacts"},
	}, "give `page"},
	{"limit of a page", []plantedCall{
		{"list_events", `{"calendar":"cal-#","limit":5#0}`, "!Error: limit must be at most 100"},
		{"list_events", `{"calendar":"cal-#","limit":100}`, "100 events"},
	}, "make `limit` equal the first number in the error"},
	{"header", []plantedCall{
		{"http_get", `{"url":"https://api.example/v1/items/#"}`, "!403 Forbidden"},
		{"http_get", `{"url":"https://api.example/v1/items/#","headers":{"Authorization":"Bearer t#"}}`, "[]"},
	}, "`headers"},
	{"header among others", []plantedCall{
		{"http_post", `{"url":"https://api.example/v1/notes/#","headers":{"Accept":"application/json"}}`, "!Error: 415 Unsupported media type"},
		{"http_post", `{"url":"https://api.example/v1/notes/#","headers":{"Accept":"application/json","Content-Type":"application/json"}}`, "stored"},
	}, "`headers.Content-Type`"},
	{"temporary error", []plantedCall{
		{"query_stock", `{"article":"art-#"}`, "!Error: 503 Service unavailable"},
		{"query_stock", `{"article":"art-#"}`, "7 left"},
	}, "call it again with the same arguments"},
	{"name of an argument", []plantedCall{
		{"find_book", `{"title":"The Red Atlas, volume #"}`, "!Error: unexpected argument"},
		{"find_book", `{"query":"The Red Atlas, volume #"}`, "shelf 4"},
	}, "give `query` in place of `title`"},
	{"type of a value", []plantedCall{
		{"seat_map", `{"row":"#","coach":"c-12"}`, "!TypeError: invalid value"},
		{"seat_map", `{"row":#,"coach":"c-12"}`, "A B C"},
	}, "give `row` as a number"},
	{"list in place of a text", []plantedCall{
		{"tag_photos", `{"photos":"pic-#","tag":"holiday"}`, "!TypeError: array expected"},
		{"tag_photos", `{"photos":["pic-#"],"tag":"holiday"}`, "1 tagged"},
	}, "give `photos` as a list"},
	{"missing module", []plantedCall{
		{"Bash", `{"command":"cd /r# && python3 plot.py"}`, "!Traceback (most recent call last):\n  File \"plot.py\", line 1\nModuleNotFoundError: No module named 'numpy'"},
		{"Bash", `{"command":"pip install numpy"}`, "installed"},
		{"Bash", `{"command":"cd /r# && python3 plot.py"}`, "plotted"},
	}, "install the missing module with `pip install`"},
	{"name of a program", []plantedCall{
		{"Bash", `{"command":"pip install wheel#"}`, "!bash: pip: command not found"},
		{"Bash", `{"command":"pip3 install wheel#"}`, "installed"},
	}, "use `pip3` in place of `pip`"},
	{"folder of a command", []plantedCall{
		{"Bash", `{"command":"make release-#"}`, "!make: *** No rule to make target. Stop."},
		{"Bash", `{"command":"cd backend && make release-#"}`, "done"},
	}, "run it in another folder"},
	{"argument too much", []plantedCall{
		{"translate", `{"text":"page # of the manual","style":"plain"}`, "!Error: unsupported parameter"},
		{"translate", `{"text":"page # of the manual"}`, "Seite"},
	}, "leave out `style`"},
	{"upper case", []plantedCall{
		{"tax_rate", `{"country":"de","year":"20#"}`, "!Error: unknown country"},
		{"tax_rate", `{"country":"DE","year":"20#"}`, "19"},
	}, "upper and lower case in `country`"},
	{"white space", []plantedCall{
		{"apply_edit", `{"file":"a#.py","text":"return total"}`, "!IndentationError: unexpected indent"},
		{"apply_edit", `{"file":"a#.py","text":"    return total"}`, "ok"},
	}, "white space at the start of lines in `text`"},
	{"look before a change", []plantedCall{
		{"rename_page", `{"page":"wiki-#","name":"News #"}`, "!Error: the version of the page is required"},
		{"page_history", `{"page":"wiki-#"}`, "version 7#"},
		{"rename_page", `{"page":"wiki-#","name":"News #","version":"7#"}`, "renamed"},
	}, "`version`"},
}

// plantedRun is a run in the form of chat messages.
func plantedRun(kind string, calls []plantedCall, task int) (question string, messages []map[string]any) {
	number := strings.NewReplacer("#", fmt.Sprint(task))
	question = fmt.Sprintf("Please do number %d: %s.", task, kind)
	messages = append(messages, map[string]any{"role": "user", "content": question})
	for i, c := range calls {
		id := fmt.Sprintf("call-%s-%d-%d", strings.ReplaceAll(kind, " ", "-"), task, i)
		output, _ := strings.CutPrefix(number.Replace(c.output), "!")
		messages = append(
			messages,
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": id, "type": "function", "function": map[string]any{"name": c.tool, "arguments": number.Replace(c.arguments)},
			}}},
			map[string]any{"role": "tool", "tool_call_id": id, "name": c.tool, "content": output},
		)
	}
	return question, append(messages, map[string]any{"role": "assistant", "content": fmt.Sprintf("Number %d is done.", task)})
}

// plantedSession is a run as a session of Claude Code.
func plantedSession(kind string, calls []plantedCall, task int) string {
	number := strings.NewReplacer("#", fmt.Sprint(task))
	var lines strings.Builder
	session, last := fmt.Sprintf("5e550000-0000-4000-8000-%012x", 1000*len(kind)+int(kind[0])+task<<20), any(nil)
	add := func(speaker string, content any) {
		id := fmt.Sprintf("%s-%d", session, lines.Len())
		message := map[string]any{"role": speaker, "content": content}
		if speaker == "assistant" {
			message["id"], message["model"] = "msg-"+id, "m"
		}
		line, _ := json.Marshal(map[string]any{
			"type": speaker, "uuid": id, "parentUuid": last, "sessionId": session, "isSidechain": false, "userType": "external",
			"cwd": "/w", "version": "2.1.0", "timestamp": fmt.Sprintf("2031-05-17T10:00:%02dZ", strings.Count(lines.String(), "\n")), "message": message,
		})
		last = id
		lines.Write(append(line, '\n'))
	}
	add("user", fmt.Sprintf("Please do number %d: %s.", task, kind))
	for i, c := range calls {
		id := fmt.Sprintf("toolu-%s-%d", session, i)
		output, failed := strings.CutPrefix(number.Replace(c.output), "!")
		add("assistant", []any{map[string]any{"type": "tool_use", "id": id, "name": c.tool, "input": json.RawMessage(number.Replace(c.arguments))}})
		add("user", []any{map[string]any{"type": "tool_result", "tool_use_id": id, "content": output, "is_error": failed}})
	}
	add("assistant", []any{map[string]any{"type": "text", "text": "Done."}})
	return lines.String()
}

// realFolder returns the folder of the real runs. It skips the test if it is missing.
func realFolder(t *testing.T) string {
	t.Helper()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../shared/data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	return dir
}

// plant writes one run of each kind for each task into a folder: a third of the kinds into a copy of the real file of tau-bench, a third
// into sessions of Claude Code, and a third into lines of chat messages. label is the number in the name of a task.
func plant(t *testing.T, tasks int, label func(task int) int) (folder string) {
	t.Helper()
	folder = t.TempDir()
	raw, err := os.ReadFile(filepath.Join(realFolder(t), "tau-bench", "gpt-4o-airline-trials-0-2.json"))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	var bench []any
	if err := json.Unmarshal(raw, &bench); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, p := range planted {
		for task := range tasks {
			n := 11 + task
			name := label(task)
			switch i % 3 {
			case 0:
				_, messages := plantedRun(p.kind, p.calls, n)
				bench = append(bench, map[string]any{"task_id": 1000 + 100*i + name, "trial": task, "reward": 1.0, "info": map[string]any{}, "traj": messages})
			case 1:
				write(fmt.Sprintf("session-%d-%d.jsonl", i, task), plantedSession(p.kind, p.calls, n))
			default:
				question, messages := plantedRun(p.kind, p.calls, n)
				line, _ := json.Marshal(map[string]any{"id": fmt.Sprintf("run-%d-%d", i, task), "task": fmt.Sprintf("%s %d", p.kind, name), "question": question, "messages": messages})
				lines.Write(append(line, '\n'))
			}
		}
	}
	changed, _ := json.Marshal(bench)
	write("tau-bench.json", string(changed))
	write("lines.jsonl", lines.String())
	return folder
}

// learnedOf learns from files and folders without a model, as the command does, and returns the texts of the bullets that are shown.
func learnedOf(t *testing.T, names ...string) (contents []string, res *learnResult) {
	t.Helper()
	files, _, err := expandFiles(names)
	if err != nil {
		t.Fatal(err)
	}
	s, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(t.Context(), "100ms", zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	l := &Learn{Book: "b", JSON: true}
	res, err = l.learnWithRoles(t.Context(), s, &runs.Reader{Book: "b"}, files)
	if err != nil {
		t.Fatal(err)
	}
	w, err := deltalog.New(s.JetStream()).Writer(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	for b := range w.State().Playbook().All() {
		if b.Shown() {
			contents = append(contents, b.Content)
		}
	}
	return contents, res
}

// TestRealRunsTeachNothing learns from all real files together.
func TestRealRunsTeachNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	got, res := learnedOf(t, realFolder(t))
	if len(got) > 0 || res.Executions < 170 || res.Analysis.ToolErrors == 0 {
		t.Errorf("%d real runs with %d errors of tools teach %q, want nothing of 170 runs or more with errors", res.Executions, res.Analysis.ToolErrors, got)
	}
}

// TestPlantedRemediesAreLearned plants each kind of remedy in two tasks among all real files.
func TestPlantedRemediesAreLearned(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	got, _ := learnedOf(t, realFolder(t), plant(t, 2, func(task int) int { return task }))
	for _, p := range planted {
		tool := "`" + p.calls[0].tool + "`"
		if p.calls[0].tool == "Bash" {
			tool = ""
		}
		found := false
		for _, content := range got {
			found = found || strings.Contains(content, tool) && strings.Contains(content, p.want)
		}
		if !found {
			t.Errorf("%s: no bullet has %s and %q", p.kind, tool, p.want)
		}
	}
	if len(got) != len(planted) {
		t.Errorf("got %d bullets, want one for each of %d kinds:\n%s", len(got), len(planted), strings.Join(got, "\n"))
	}
}

// TestOneTaskTeachesNothing plants each kind of remedy in two runs of one task, and in one run that is copied under another name of its task.
func TestOneTaskTeachesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	if got, _ := learnedOf(t, plant(t, 1, func(task int) int { return task })); len(got) > 0 {
		t.Errorf("one run of one task teaches %q", got)
	}
	folder := t.TempDir()
	var lines strings.Builder
	for i, p := range planted {
		question, messages := plantedRun(p.kind, p.calls, 11)
		for copied := range 3 {
			line, _ := json.Marshal(map[string]any{"id": fmt.Sprintf("run-%d-%d", i, copied), "task": fmt.Sprintf("%s %d", p.kind, copied), "question": question, "messages": messages})
			lines.Write(append(line, '\n'))
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "copies.jsonl"), []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, _ := learnedOf(t, folder); len(got) > 0 {
		t.Errorf("copies of one run under three names of tasks teach %q", got)
	}
}

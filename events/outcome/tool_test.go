package outcome

import (
	"encoding/json"
	"testing"

	"debrief/events"
)

func TestOfToolCommands(t *testing.T) {
	t.Parallel()
	const traceback = "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\n    f()\n"
	const failed, other = true, false // other: a success, or without a sign
	tests := []struct {
		command, output string
		want            bool
	}{
		{"foo --bar", "bash: foo: command not found", failed},
		{"foo --bar", "/bin/bash: line 1: foo: command not found\n(Open file: n/a)\n(Current directory: /x)\nbash-$", failed},
		{"cat x.txt", "cat: x.txt: No such file or directory", failed},
		{"cat x.txt", "bash: cat: command not found", failed},
		{"cd /nowhere && cat x", "bash: cd: /nowhere: No such file or directory", failed},
		{"ls a b", "b.txt\nls: cannot access 'a': No such file or directory", failed},
		{"PYTHONPATH=. python3 a.py", "python3: can't open file '/x/a.py': [Errno 2] No such file or directory", failed},
		{"/usr/bin/python3.11 a.py", "python: can't open file 'a.py': [Errno 2] No such file or directory", failed},
		{"python a.py", "some output\n" + traceback + "NameError: name 'x' is not defined\n", failed},
		{"python a.py", "  File \"a.py\", line 4\n    def f()\n           ^\nSyntaxError: expected ':'", failed},
		{"python a.py", traceback + "requests.exceptions.ConnectTimeout: 10 s", failed},
		{"edit 1:1\nx = (", "Your proposed edit has introduced new syntax error(s). Please understand the fixes\n\n1: x = (", failed},
		{"edit 1:1", "No file open. Use the open command first.", failed},
		{"open a.py", "File a.py not found", failed},
		{"create a.py", "Error: File 'a.py' already exists.", failed},
		{"str_replace_editor str_replace a.py", "No replacement was performed, old_str `x` did not appear verbatim in /a.py.", failed},
		{"git checkout nope", "error: pathspec 'nope' did not match any file(s) known to git", failed},
		{"git status", "fatal: not a git repository", failed},
		{"curl http://x", "  % Total\n  0 0\ncurl: (6) Could not resolve host: x", failed},
		{"curl http://x", "fine\n///PROCESS-DONE:7:PROCESS-DONE///", failed},
		{"make all", "cc -c a.c\nmake: *** [all] Error 1", failed},
		{"./run.sh", "bash: ./run.sh: Permission denied", failed},
		{"sleep 100", "\nEXECUTION TIMED OUT", failed},
		{"tox", "some output\n[exit code: 2]", failed},
		{"tox", "Command exited with status 127", failed},
		{"for f in a b; do cat $f; done", "cat: a: No such file or directory", failed},
		{"cd /x || foo", "bash: foo: command not found", failed},
		{"set -e\nmake all", "make: *** [all] Error 1", failed},
		{"bash -lc 'git status'", "fatal: not a git repository", failed},
		{"sudo -u root rm x", "rm: cannot remove 'x': No such file or directory", failed},
		{"go run .", "panic: boom\n\ngoroutine 1 [running]:\nmain.main()\n\t/x/main.go:4 +0x1d\nexit status 2", failed},
		{"go test ./...", "--- FAIL: TestX (0.00s)\nFAIL\nFAIL\tx\t0.1s\nFAIL", other}, // tests that fail are an answer without an exit code
		{"node a.js", "/x/a.js:3\n  throw new Error('no shelf');\n  ^\n\nError: no shelf\n    at Object.<anonymous> (/x/a.js:3:9)\n    at node:internal/main:1:2\n\nNode.js v20.11.0", failed},
		{"java -jar a.jar", "Exception in thread \"main\" java.lang.NullPointerException: x\n\tat a.B.main(B.java:3)", failed},
		{"npm ci", "npm ERR! code ENOENT\nnpm ERR! path /x/package.json", failed},
		{"cargo build", "error[E0425]: cannot find value `x` in this scope", failed},
		{"./prog", "Segmentation fault (core dumped)", failed},
		{"rg foo", "Exit code: 2\nWall time: 0 seconds\nOutput:\nregex parse error", failed},

		{"cat log", traceback + "NameError: name 'x' is not defined", other},
		{"cat log", "bash: foo: command not found", other},
		{"cat README", "Usage: foo [options]\nError: is printed", other},
		{"cd /x; tail -3 log", traceback + "KeyError: 1", other},
		{"bash -lc 'cat log'", traceback + "KeyError: 1", other},
		{"for f in *.log; do tail $f; done", traceback + "KeyError: 1", other},
		{"edit 1:1\nrm -f x; foo", "foo: No such file or directory", other},
		{"open a.py", "[File: a.py (3 lines total)]\n1:raise ValueError\n2:Traceback (most recent call last):\n3:ValueError: x", other},
		{"grep -rn Error .", "a.py:3: raise KeyError: No such file", other},
		{"git log", "commit 1\n\n    fatal: not a problem", other},
		{"git diff", "diff --git a b\n+SyntaxError: invalid", other},
		{"submit", "diff --git a b\n-Traceback (most recent call last):\n-KeyError: x", other},
		{"curl http://x", "  % Total\nNot found\nAn error occurred", other},
		{"curl http://x", "curl: (6) quoted\n///PROCESS-DONE:0:PROCESS-DONE///", other},
		{"python a.py", traceback + "NameError: caught it\nall done", other},
		{"python a.py", "Warning: _curses.error: setupterm: could not find terminfo database\n\nTrue", other},
		{"python a.py", "Script completed successfully, no errors. Result: True", other},
		{"pytest", "1 failed, 2 passed, exit code 0", other},
		{"search_file x", "No matches found for \"x\" in /a.py", other},
		{"submit 'flag'", "Wrong flag!", other},
		{"rg foo", "Exit code: 1\nWall time: 0 seconds\nOutput:\n", other},
		{"rm a.py", "", other},
		{"", "", other},
	}
	for _, tt := range tests {
		arguments, _ := json.Marshal(map[string]string{"command": tt.command})
		call := &events.ToolCall{Tool: "bash", Arguments: string(arguments)}
		if got := OfTool(call, tt.output, Signs{}); got.Failed() != tt.want {
			t.Errorf("%q printed %q: got %s, want failed: %v", tt.command, tt.output, got, tt.want)
		}
	}
}

func TestOfTool(t *testing.T) {
	t.Parallel()
	const s, f, u = events.Success, events.Failure, events.Unknown
	tests := []struct {
		name, tool, output string
		want               events.Label
	}{
		{"header of Codex", "exec_command", "Chunk ID: 1a2b\nWall time: 0.1200 seconds\nProcess exited with code 2\nOriginal token count: 9\nOutput:\nmake: no rule\n", f},
		{"header of Codex, worked", "exec_command", "Chunk ID: 1a2b\nWall time: 0.1 seconds\nProcess exited with code 0\nOutput:\nerror: printed by a test\n", s},
		{"command of Codex runs", "exec_command", "Chunk ID: 1a2b\nWall time: 1 seconds\nProcess running with session ID 7\nOutput:\nerror", u},
		{"older header of Codex", "shell_command", "Exit code: 2\nWall time: 0.1 seconds\nOutput:\nmake: no rule\n", f},
		{"report of Codex", "shell", `{"output":"x: not found","metadata":{"exit_code":127,"duration_seconds":0.1}}`, f},
		{"report of Codex, worked", "shell", `{"output":"error: none","metadata":{"exit_code":0,"duration_seconds":0.1}}`, s},
		{"exit code in JSON", "run", `{"stdout":"","stderr":"lss: not found","exit_code":127}`, f},
		{"return code in JSON", "run", `{"returncode": 0, "stderr": "warning: error in config ignored"}`, s},
		{"standard error in JSON", "run", `{"stdout":"","stderr":"bash: lss: command not found"}`, f},
		{"mini-SWE-agent", "bash", "<returncode>1</returncode>\n<output>\nx\n</output>", f},
		{"curl, called by another tool", "catalogue", "curl: (7) Failed to connect to localhost port 80", f},
		{"a log line", "catalogue", "ERROR - could not connect to database", f},
		{"rc", "catalogue", "rc=1\nfailed", f},
		{"a status in words", "catalogue", "Status: failed\nReason: unknown field", f},
		{"a status in words, worked", "catalogue", "Status: shipped\nReason: none", s},
		{"denied", "catalogue", "Access to the path is denied.", f},
		{"an error code of Node", "catalogue", "connect ECONNREFUSED 127.0.0.1:5432", f},
		{"a program with its name", "catalogue", "psql: error: connection to server failed", f},
		{"gRPC", "catalogue", "rpc error: code = NotFound desc = no book", f},
		{"Maven", "catalogue", "[ERROR] Failed to execute goal on project x", f},
		{"Gradle", "catalogue", "FAILURE: Build failed with an exception.\n\n* What went wrong:\nx", f},
		{"a compiler", "catalogue", "a.c:3:5: error: expected ';' before '}' token", f},
		{"TypeScript", "catalogue", "error TS2304: Cannot find name 'x'.", f},
		{"a tag for an error", "catalogue", "<tool_error>bad</tool_error>", f},
		{"a tool that is not found", "catalogue", "Tool not found: x", f},
		{"nothing that is not found", "catalogue", "Books not found: 0", u},
		{"a return code in the first line", "catalogue", "Return code: 2\nStderr: x", f},
		{"an exit code with a name of JSON", "catalogue", "stderr: x\nexit_code: 1", f},
		{"an exit code in parentheses", "catalogue", "(exit 1)\nno", f},
		{"an exit code in parentheses at the end", "catalogue", "no\n(exit 1)", f},
		{"a script that ends with exit 1", "Read", "#!/bin/sh\nmake || echo no\nexit 1", s},
		{"a fence with spaces", "Read", "```\n  \n```", u},
		{"a compiler's message in a search", "Grep", "app.log:12: error: disk full", u},
		{"an error code as a subject", "catalogue", "ENOENT and EACCES are error codes", u},
		{"an open connection that failed", "catalogue", "connect ETIMEDOUT 10.0.0.1:443", f},
		{"items that were not found, none", "catalogue", "Books not found: none", u},
		{"a cross for a value", "catalogue", "❌ atlas", s},
		{"a cross", "catalogue", "✗ 3 tests failed", f},
		{"go test", "catalogue", "--- FAIL: TestX (0.00s)\nFAIL\nexit status 1\nFAIL\tx 0.1s", f},
		{"unittest", "catalogue", "Ran 3 tests in 0.1s\n\nFAILED (failures=1)", f},
		{"pytest", "catalogue", "=== 1 failed, 2 passed in 0.12s ===", f},
		{"pytest, worked", "catalogue", "=== 2 passed, 1 warning in 0.12s ===", s},
		{"a request", "catalogue", "Request failed: 403 Forbidden", f},
		{"colours", "catalogue", "\x1b[31mError:\x1b[0m unknown field title", f},
		{"a fence", "catalogue", "```\nError: unknown field\n```", f},
		{"a tag with the exit code", "catalogue", "<exit_code>1</exit_code>\n<stderr>bad</stderr>", f},
		{"the exit status in the first line", "catalogue", "Exit status: 1\nOutput:\nFAILED", f},
		{"the exit status 0 in the first line", "catalogue", "Exit status: 0\nOutput:\n1 test FAILED as expected", s},
		{"mini-SWE-agent, worked", "bash", "<returncode>0</returncode>\n<output>\nError: x\n</output>", s},
		{"OpenHands", "execute_bash", "x\n[The command completed with exit code 2.]\n[Current working directory: /w]\n[Python interpreter: /usr/bin/python]", f},
		{"OpenHands, worked", "execute_bash", "KeyError: 1\n[The command completed with exit code 0.]", s},
		{"CodeAct", "execute_bash", "x\n[Command finished with exit code 1]", f},
		{"Claude Code", "Bash", "Error: Exit code 1\nmake: no rule", f},
		{"Claude Code, tool", "Edit", "<tool_use_error>String to replace not found in file.</tool_use_error>", f},
		{"Gemini CLI", "run_shell_command", "Command: ls x\nDirectory: (root)\nOutput: ls: x: No such file\nError: (none)\nExit Code: 2\nSignal: 0", f},
		{"Gemini CLI, worked", "run_shell_command", "Command: ls\nDirectory: (root)\nOutput: a\nError: (none)\nExit Code: 0\nSignal: 0", s},
		{"AutoGen", "python", "exitcode: 1 (execution failed)\nCode output: x", f},
		{"aider", "edit", "# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch", f},
		{"tau-bench", "get_user_details", "Error: user not found", f},
		{"Agents SDK", "lookup", "An error occurred while running the tool. Please try again. Error: no such id", f},
		{"server of MCP", "lookup", "Error executing tool lookup: shelf is required", f},
		{"client of MCP", "lookup", "MCP error -32602: Invalid arguments for tool lookup", f},
		{"result of MCP", "lookup", `{"content":[{"type":"text","text":"no shelf"}],"isError":true}`, f},
		{"result of MCP, worked", "lookup", `{"content":[{"type":"text","text":"shelf 7"}]}`, s},
		{"parts", "lookup", `[{"type":"text","text":"Error: unknown shelf"}]`, f},
		{"LangGraph", "lookup", "Error: lookup2 is not a valid tool, try one of [lookup].", f},
		{"traceback", "python", "Traceback (most recent call last):\n  File \"a.py\", line 3, in <module>\nKeyError: 'shelf'", f},
		{"PowerShell", "terminal", "lss : The term 'lss' is not recognized as the name of a cmdlet, function, script file", f},
		{"error in JSON", "lookup", `{"error": "no such order"}`, f},
		{"error object in JSON", "lookup", `{"error": {"code": 404, "message": "order"}}`, f},
		{"errors of GraphQL", "query", `{"data": null, "errors": [{"message": "x"}]}`, f},
		{"success false", "lookup", `{"success": false, "message": "x"}`, f},
		{"ok false", "lookup", `{"ok": false}`, f},
		{"status error", "lookup", `{"status": "error", "message": "x"}`, f},
		{"status failed with a reason", "lookup", `{"status": "failed", "reason": "no stock"}`, f},
		{"problem details", "lookup", `{"type": "about:blank", "title": "Not Found", "status": 404, "detail": "no order 7"}`, f},
		{"FastAPI", "lookup", `{"detail": "Not Found"}`, f},
		{"JSON-RPC", "lookup", `{"code": -32602, "message": "shelf is required"}`, f},
		{"AWS", "lookup", `{"__type": "com.amazonaws#ResourceNotFoundException", "message": "x"}`, f},
		{"message only", "lookup", `{"message": "order not found"}`, f},
		{"HTTP status", "http_get", `{"status_code": 503, "body": ""}`, f},
		{"HTTP page", "http_request", "<html><head><title>502 Bad Gateway</title></head></html>", f},
		{"HTTP client", "http_request", "Client error '404 Not Found' for url 'http://x/y'", f},
		{"axios", "http_request", "Request failed with status code 404", f},
		{"envelope", "lookup", `{"result": "Error: unknown field title"}`, f},
		{"JSON text", "lookup", `"Error: unknown field title"`, f},
		{"plain words", "lookup", "unknown field title", f},
		{"plain words at the end", "lookup", "Order 4711 not found.", f},
		{"German", "suche", "Fehler: Feld titel ist nicht bekannt", f},
		{"file tool", "read_file", "Error: file not found: /a.txt", f},

		{"plain text", "catalogue", "shelf 7", s},
		{"word", "reserve", "reserved", s},
		{"number", "calculate", "1023.0", s},
		{"record", "get_order", `{"id": 7, "status": "delivered", "items": []}`, s},
		{"record with a null error", "get_order", `{"id": 7, "error": null}`, s},
		{"list of records", "list_orders", `[{"id": 7, "status": "failed"}]`, s},
		{"success in JSON", "lookup", `{"success": true, "error": ""}`, s},
		{"no errors", "lint", "0 errors, 0 warnings", s},
		{"no problems in JSON", "lint", `{"errors": [], "warnings": 2}`, s},
		{"search about errors", "web_search", "1. How to handle errors in Go\n2. Error: what it means\n3. Errors are values", u},
		{"log", "get_logs", "ERROR: db down\nINFO: db up\nINFO: ready\nINFO: done", u},
		{"page about errors", "fetch_page", "Error handling\n\nA function returns an error.\n\nSee also: panic.", u},
		{"record of a payment that failed", "get_payment", `{"id": "p1", "status": "failed", "amount": 3, "currency": "EUR"}`, u},
		{"measure", "fit", `{"error": 0.02, "steps": 7}`, u},
		{"findings of a checker", "lint", `{"file": "a.go", "errors": [{"line": 3}], "count": 1}`, u},
		{"ticket", "get_ticket", `{"id": 1, "author": "kim", "message": "Unable to log in since the update"}`, u},
		{"a sentence that mentions an error", "ask", "The customer reported an error in the invoice, which we have corrected since.", u},
		{"empty", "lookup", " \n", u},
		{"empty object", "lookup", "{}", u},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := OfTool(&events.ToolCall{Tool: tt.tool}, tt.output, Signs{}); got != tt.want {
				t.Errorf("%s printed %q: got %s, want %s", tt.tool, tt.output, got, tt.want)
			}
		})
	}
}

func TestOfToolSigns(t *testing.T) {
	t.Parallel()
	bash := &events.ToolCall{Tool: "bash", Arguments: `{"command":"grep x a.txt"}`}
	for _, tt := range []struct {
		name, output string
		signs        Signs
		want         events.Label
	}{
		{"an error", "shelf 7", Signs{Error: new(true)}, events.Failure},
		{"an error without text", "", Signs{Error: new(true)}, events.Failure},
		{"no error", "", Signs{Error: new(false)}, events.Success},
		{"no error, doubtful text", "the log has an error", Signs{Error: new(false)}, events.Success},
		{"no error, exit code in the text", "Exit code: 3\nWall time: 1 seconds\nOutput:\nx", Signs{Error: new(false)}, events.Failure},
		{"no error, exit code", "x", Signs{Error: new(false), ExitCode: new(3)}, events.Failure},
		{"exit code 0, text of an error", "bash: x: command not found", Signs{ExitCode: new(0)}, events.Success},
		{"exit code of a search without a match", "", Signs{ExitCode: new(1), Status: "failed"}, events.Unknown},
		{"exit code of a running command", "error", Signs{ExitCode: new(-1)}, events.Unknown},
		{"killed by a signal", "", Signs{ExitCode: new(-9)}, events.Failure},
		{"word for a failure", "shelf 7", Signs{Status: "FAILED"}, events.Failure},
		{"word for a time limit", "", Signs{Status: "timeout"}, events.Failure},
		{"word for a success", "", Signs{Status: "success"}, events.Success},
		{"word for a success, exit code in the text", "Output: x\nExit Code: 2\n", Signs{Status: "success"}, events.Failure},
		{"word for the end only", "", Signs{Status: "completed"}, events.Unknown},
		{"stopped by the user", "Error: x", Signs{Status: "cancelled"}, events.Unknown},
		{"refused by the user", "The user doesn't want to proceed with this tool use.", Signs{Error: new(true)}, events.Unknown},
		{"all errors are marked, text like an error", "Error in a name\n\nb", Signs{MarksAll: true}, events.Success},
		{"all errors are marked, error of Claude Code", "<tool_use_error>no</tool_use_error>", Signs{MarksAll: true}, events.Failure},
		{"quoted refusal", "The user doesn't want to pay.", Signs{}, events.Success},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := OfTool(bash, tt.output, tt.signs); got != tt.want {
				t.Errorf("%q with %+v: got %s, want %s", tt.output, tt.signs, got, tt.want)
			}
		})
	}
}

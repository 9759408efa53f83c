package shell

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// describe writes a command in one line: condition, pipe, directory, words, files and input.
func describe(c Command) string {
	var b strings.Builder
	if c.AfterSuccess {
		b.WriteString("&& ")
	}
	if c.Piped {
		b.WriteString("| ")
	}
	if c.Dir != "" {
		fmt.Fprintf(&b, "[%s] ", c.Dir)
	}
	b.WriteString(c.Program)
	for _, a := range c.Args {
		fmt.Fprintf(&b, " {%s}", a)
	}
	for _, f := range c.Writes {
		b.WriteString(" >" + f)
	}
	if c.Input != "" {
		fmt.Fprintf(&b, " <<%q", c.Input)
	}
	return b.String()
}

func TestParse(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, line string
		want       []string
	}{
		{"a directory", "cd /repo && python run.py", []string{"cd {/repo}", "&& [/repo] python {run.py}"}},
		{"a directory on its own line", "cd /repo\nls", []string{"cd {/repo}", "[/repo] ls"}},
		{"directories in directories", "cd a && cd b/.. && cd /c; ls", []string{"cd {a}", "&& [a] cd {b/..}", "&& [a] cd {/c}", "[/c] ls"}},
		{"home and back", "cd; ls; cd -; ls", []string{"cd", "[~] ls", "[~] cd {-}", "ls"}},
		{"back to a directory of the line", "cd a; cd b; cd -; cd sub; ls", []string{"cd {a}", "[a] cd {b}", "[a/b] cd {-}", "[a] cd {sub}", "[a/sub] ls"}},
		{"back to an unknown directory", "cd -; cd sub; ls", []string{"cd {-}", "[$OLDPWD] cd {sub}", "[$OLDPWD/sub] ls"}},
		{"a pushed directory", "pushd a; pushd b && ls; popd; pwd; popd; make", []string{"pushd {a}", "[a] pushd {b}", "&& [a/b] ls", "[a/b] popd", "[a] pwd", "[a] popd", "make"}},
		{"exchanged directories", "pushd a; pushd; ls; pushd; pwd", []string{"pushd {a}", "[a] pushd", "ls", "pushd", "[a] pwd"}},
		{"a directory of another line", "popd; ls; pushd +1; ls", []string{"popd", "[$PWD] ls", "[$PWD] pushd {+1}", "[$PWD] ls"}},
		{"a selected directory", "pushd a; pushd b; pushd -1; ls; cd /c; popd +1; ls; popd", []string{"pushd {a}", "[a] pushd {b}", "[a/b] pushd {-1}", "[$PWD] ls", "[$PWD] cd {/c}", "[/c] popd {+1}", "[$PWD] ls", "[$PWD] popd"}},
		{"a directory pushed in a subshell", "pushd a; (pushd b; ls); popd; ls", []string{"pushd {a}", "[a] pushd {b}", "[a/b] ls", "[a] popd", "ls"}},
		{"a directory beyond the limit", "cd " + strings.Repeat("a/", 2100) + "; cd sub; ls >o", []string{"cd {" + strings.Repeat("a/", 2100) + "}", "[$PWD] cd {sub}", "[$PWD/sub] ls >o"}},
		{"an alternative to a directory", "cd a || exit 1; ls", []string{"cd {a}", "exit {1}", "[a] ls"}},
		{"a subshell", "(cd a && make) && ls", []string{"cd {a}", "&& [a] make", "&& ls"}},
		{"a job", "cd a & ls", []string{"cd {a}", "ls"}},
		{"a pipe", "cat a | grep b | head -3", []string{"cat {a}", "| grep {b}", "| head {-3}"}},
		{"conditions", "make && make test || make clean; ls", []string{"make", "&& make {test}", "make {clean}", "ls"}},
		{"a negation", "! test -d x && mkdir x", []string{"test {-d} {x}", "mkdir {x}"}},
		{"prefixes", "sudo -u root -E env A=1 B=2 nice -n 5 timeout -k 3 20s python3.11 x.py", []string{"python {x.py}"}},
		{"assignments", "PYTHONPATH=. DEBUG= pytest", []string{"pytest"}},
		{"time and nohup", "time nohup ./run.sh &", []string{"run.sh"}},
		{"runners", "poetry run pytest; uv run --with x pytest; bundle exec rspec; conda run -n e python a.py", []string{"pytest", "pytest", "rspec", "python {a.py}"}},
		{"npx", "npx -y tsc --noEmit", []string{"tsc {--noEmit}"}},
		{"prefixes without a command", "env; sudo; timeout 5", []string{"env", "sudo", "timeout {5}"}},
		{"command -v is not a prefix", "command -v jq; command ls", []string{"command {-v} {jq}", "ls"}},
		{"a script", `bash -lc "cd a && cargo test"`, []string{"cd {a}", "&& [a] cargo {test}"}},
		{"a script in a directory", `cd a && sudo bash -euo pipefail -c 'ls > o; pwd' > p`, []string{"cd {a}", "&& [a] ls >o", "&& [a] pwd >p"}},
		{"a script in a script", `sh -c "sh -c ls"`, []string{"sh {-c} {ls}"}},
		{"a script in a substitution", `x=$(bash -c 'sh -c ls; pwd')`, []string{"sh {-c} {ls}", "pwd"}},
		{"a shell with a file", "bash -x run.sh -c", []string{"bash {-x} {run.sh} {-c}"}},
		{"a script that is empty", "bash -c ''", []string{"bash {-c} {}"}},
		{"files", "sort < in.txt > out.txt 2> err.txt", []string{"sort >out.txt"}},
		{"all output in a file", "make &> log; make >& log2; make >>log3 2>&1", []string{"make >log", "make >log2", "make >log3"}},
		{"devices are not files", "ls > /dev/null 2>&1 < /dev/null", []string{"ls"}},
		{"tee", "echo x | tee -a f /dev/stderr g", []string{"echo {x}", "| tee {-a} {f} {/dev/stderr} {g} >f >g"}},
		{"a here-document", "cat > 'a b.py' <<'EOF'\nrm -rf $x\nEOF\nls", []string{`cat >a b.py <<"rm -rf $x\n"`, "ls"}},
		{"a here-document with an expansion", "cat <<EOF\na $b $(c) \\$d\nEOF", []string{`cat <<"a $b $(c) \\$d\n"`}},
		{"a here-string", "python - <<< 'print(1)'", []string{`python {-} <<"print(1)"`}},
		{"two here-documents", "cat <<A <<B\n1\nA\n2\nB\n", []string{`cat <<"1\n2\n"`}},
		{"a group", "{ ls; pwd; } > f", []string{"ls", "pwd >f"}},
		{"a loop", "for f in *.py; do python $f || break; done", []string{"python {$f}", "break"}},
		{"a loop over a file", "while read -r l; do grep \"$l\" x; done < in", []string{"read {-r} {l}", "&& grep {$l} {x}"}},
		{"a branch", "if [ -f a ]; then npm test; elif b; then c; else d; fi", []string{"[ {-f} {a} {]}", "&& npm {test}", "b", "&& c", "d"}},
		{"a loop until success", "until a; do b; done", []string{"a", "b"}},
		{"a case", "case $x in a) ls;; *) pwd;; esac", []string{"ls", "pwd"}},
		{"a definition", "f() { rm x; }; ls", []string{"ls"}},
		{"a substitution", "out=\"$(cd a && pytest -q 2>&1)\"; echo $out", []string{"cd {a}", "&& [a] pytest {-q}", "echo {$out}"}},
		{"an argument with a substitution", "cat $(pwd)/a `b` ${c:-d}", []string{"cat {$(pwd)/a} {`b`} {${c:-d}}"}},
		{"quotes", `echo "a \"b\" \n $c" 'd'\''e' f\ g "" $'h'`, []string{`echo {a "b" \n $c} {d'e} {f g} {} {h}`}},
		{"declarations", "export A=1 B; source venv/bin/activate; declare -x C=2", []string{"export {A=1} {B}", "source {venv/bin/activate}", "declare {-x} {C=2}"}},
		{"comments", "# first\nls # rm\n# last", []string{"ls"}},
		{"continued lines", "pip install \\\n  a \\\n  b", []string{"pip {install} {a} {b}"}},
		{"Windows lines", "ls\r\npwd a\r\n", []string{"ls", "pwd {a}"}},
		{"tests and arithmetic are not programs", "[[ -f a && $b == c ]] && ls; ((i++)); let j=1", []string{"&& ls"}},
		{"nothing", " \n# x\n", nil},

		// Cut command lines.
		{"an open quote", "ls; python -c 'import a", []string{"ls", "python {-c} {import a}"}},
		{"an open double quote", "cd x && echo \"a b", []string{"cd {x}", "&& [x] echo {a b}"}},
		{"an open here-document", "cat > f <<'EOF'\na\nb", []string{`cat >f <<"a\nb\n"`}},
		{"an open subshell", "(cd a; ls", []string{"cd {a}", "[a] ls"}},
		{"an open loop", "for f in a b; do cat $f", []string{"cat {$f}"}},
		{"an open substitution", "echo $(ls", []string{"echo {$(ls}"}},
		{"an open condition", "make &&", []string{"make"}},
	}
	for _, tt := range tests {
		got, err := Parse(tt.line)
		if lines := each(got, describe); err != nil || !slices.Equal(lines, tt.want) {
			t.Errorf("%s: got %q, %v, want %q", tt.name, lines, err, tt.want)
		}
	}
}

func each(list []Command, describe func(Command) string) (lines []string) {
	for _, c := range list {
		lines = append(lines, describe(c))
	}
	return lines
}

// Commands of recorded runs of SWE-agent, mini-SWE-agent, Codex, OpenHands and OpenClaw.
func TestParseRecordedCommands(t *testing.T) {
	t.Parallel()
	tests := []struct {
		line string
		want string
	}{
		{`curl -X POST -d "name=test;id&age=123" http://web.chal.csaw.io:8000/cgi-bin/forms.pl`, "curl {-X} {POST} {-d} {name=test;id&age=123} {http://web.chal.csaw.io:8000/cgi-bin/forms.pl}"},
		{`curl -X POST -d "name=test\";print \"hello\"&age=123" http://x/forms.pl`, `curl {-X} {POST} {-d} {name=test";print "hello"&age=123} {http://x/forms.pl}`},
		{`curl -X POST -F "file=ARGV" -F "file=@printenv.pl"  "http://x/file.pl?ls%20%2e|"`, "curl {-X} {POST} {-F} {file=ARGV} {-F} {file=@printenv.pl} {http://x/file.pl?ls%20%2e|}"},
		{"decompile release --function_name _hash\n", "decompile {release} {--function_name} {_hash}"},
		{`submit 'flag{d|o9yx?_brnfj{}'`, "submit {flag{d|o9yx?_brnfj{}}"},
		{`open "src/marshmallow/fields.py" 1474`, "open {src/marshmallow/fields.py} {1474}"},
		{"python reproduce_bug.py\n", "python {reproduce_bug.py}"},
		{"ls -F", "ls {-F}"},
		{`bash -lc "sed -n '1,200p' packages/services/src/types.ts"`, "sed {-n} {1,200p} {packages/services/src/types.ts}"},
		{`rg "createService" -g"*.ts"`, "rg {createService} {-g*.ts}"},
		{`rg "type DatabaseClient" -n`, "rg {type DatabaseClient} {-n}"},
		{"echo 'hello world'", "echo {hello world}"},
		{"touch LICENSE", "touch {LICENSE}"},
		{"date +%Y-%m-%d", "date {+%Y-%m-%d}"},
		{"ls -la /home/node/.openclaw/workspace/memory/", "ls {-la} {/home/node/.openclaw/workspace/memory/}"},
	}
	for _, tt := range tests {
		got, err := Parse(tt.line)
		if err != nil || len(got) != 1 || describe(got[0]) != tt.want {
			t.Errorf("%s: got %q, %v, want %q", tt.line, each(got, describe), err, tt.want)
		}
	}
}

func TestParseInvalid(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, line string
		want       []string
		err        error
	}{
		{"no command before an operator", "&& || ;;", nil, ErrSyntax},
		{"a bracket", "ls; cat a ) b", []string{"ls", "cat {a}"}, ErrSyntax},
		{"too long", strings.Repeat("a\n", MaxInput), nil, ErrLimit},
		{"one long command", "ls " + strings.Repeat("x", MaxInput), []string{"ls {" + strings.Repeat("x", MaxInput-3) + "}"}, ErrLimit},
		{"deep brackets", strings.Repeat("(", 300) + "ls", nil, ErrLimit},
		{"deep keywords", strings.Repeat("if ", 10000) + "ls", nil, ErrLimit},
	}
	for _, tt := range tests {
		got, err := Parse(tt.line)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: got the error %v, want %v", tt.name, err, tt.err)
		}
		if lines := each(got, describe); tt.name != "too long" && !slices.Equal(lines, tt.want) {
			t.Errorf("%s: got %.200q, want %.200q", tt.name, lines, tt.want)
		}
		if len(got) > MaxCommands {
			t.Errorf("%s: got %d commands", tt.name, len(got))
		}
	}
}

// TestParseHostileInput parses lines that repeat one construct up to the limit of the input.
func TestParseHostileInput(t *testing.T) {
	t.Parallel()
	for _, unit := range strings.Split("( $( ` {_ (( $(( if_ \"$( ${a:- [[_( case_a_in_( a=( <( ! a| a&& a|| <<a_ while_ @( function_f_ f()_ time_ let_a[ $[ ((a? \\ ' <<E\n a; $a coproc_ "+
		"cd_a; A=_ bash_-c_ sudo_ $'\\x a\x00 \xff ${a[ ${a/ {a,b} a>b_ (a); {_a;} a=$( \"$(\" bash_-c_'a;a'; }$( ]<( $[} ]${a:- $(')' $['['", " ") {
		unit = strings.ReplaceAll(unit, "_", " ")
		start := time.Now()
		got, err := Parse(strings.Repeat(unit, MaxInput/len(unit)))
		if errors.Is(err, errParser) {
			t.Errorf("%q: %v", unit, err)
		}
		if took := time.Since(start); took > 5*time.Second || len(got) > MaxCommands {
			t.Errorf("%q: got %d commands after %v", unit, len(got), took)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"cd /x && python3 y.py > z 2>&1", "cat <<'E' > f\na\nE\nls", "bash -lc 'sh -c \"ls; pwd\"'", "a | b || c && d & e; (f)", "for i in $(ls); do sudo -u x env A=1 $i; done",
		"case a in b) c;; esac", "x=\"$(pip install -U 'a[b]>=1' c@2 -r r.txt)\"", "echo \"${a:-`b`}\" $((1+2)) <(c) \\", "'", "\"$(", "<<E", "a\x00\xff", "if x; then y", "git -C x status", "f() { a; }; f",
	} {
		f.Add(s)
	}
	f.Add("0& 0\xff") // the parser reports an error after its last statement
	f.Fuzz(func(t *testing.T, line string) {
		late := time.AfterFunc(10*time.Second, func() { panic(fmt.Sprintf("no result after 10 s: %q", line)) })
		defer late.Stop()
		got, err := Parse(line)
		if errors.Is(err, errParser) {
			t.Fatal(err)
		}
		if len(got) > MaxCommands {
			t.Errorf("%d commands", len(got))
		}
		size := 0
		for _, c := range got {
			if strings.ContainsRune(c.Program, '/') && c.Program != "/" || len(c.Dir) > maxDir {
				t.Errorf("got the command %+v", c)
			}
			for _, a := range append(c.Args, c.Word, c.Input) {
				size += len(a)
			}
			c.Action()
		}
		if size > 8*(len(line)+64) {
			t.Errorf("%d bytes of a line of %d", size, len(line))
		}
		again, _ := Parse(line)
		if !reflect.DeepEqual(got, again) {
			t.Error("the same line gave other commands")
		}
		MainCommand(got)
	})
}

func BenchmarkParse(b *testing.B) {
	for name, line := range map[string]string{
		"short":         "cd /repo && grep -rn name src | head -5",
		"script":        `bash -lc "cd /repo && FOO=1 timeout 60 python3 -m pytest -q tests/test_a.py 2>&1 | tail -20"`,
		"here-document": "cat > a.py <<'EOF'\n" + strings.Repeat("print('a line of a program')\n", 300) + "EOF\npython a.py",
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(line); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package shell

import (
	"slices"
	"strings"
	"testing"
)

var kindNames = []string{
	"lists", "reads", "searches", "writes", "edits", "tests", "installs", "builds", "runs", "inspects VCS", "changes VCS", "verifies", "changes dir", "environment",
}

func describeAction(c Command) string {
	a := c.Action()
	var kinds []string
	for i, name := range kindNames {
		if a.Kind&(1<<i) != 0 {
			kinds = append(kinds, name)
		}
	}
	s := strings.Join(kinds, "+") + ": " + a.Name
	if a.Path != "" {
		s += " " + a.Path
	}
	return s
}

func TestAction(t *testing.T) {
	t.Parallel()
	tests := []struct{ line, want string }{
		{"ls -la src", "lists: ls"},
		{"tree -L 2", "lists: tree"},
		{"find . -name '*.py'", "lists+searches: find"},
		{"cat src/a.py", "reads: cat src/a.py"},
		{"head -n 20 ./a.py", "reads: head a.py"},
		{"less README.md", "reads: less README.md"},
		{"sed -n '1,20p' a/b.go", "reads: sed a/b.go"},
		{"grep -rn x src/a.py", "searches: grep"},
		{"git grep x", "searches: git grep"},
		{"git -C /repo status", "inspects VCS: git status"},
		{"git --no-pager -c color.ui=false log -3", "inspects VCS: git log"},
		{"npm --prefix web test", "tests: npm test"},
		{"touch a/b.txt", "writes: touch a/b.txt"},
		{"tee out.txt", "writes: tee out.txt"},
		{"rm -rf build/", "writes: rm build"},
		{"sed -i 's/a/b/' a/b.go", "edits: sed -i a/b.go"},
		{"sed -i.bak -e 's/a/b/' a/b.go", "edits: sed -i a/b.go"},
		{"sed --in-place s/a/b/ x.c", "edits: sed -i x.c"},
		{"perl -pi -e 's/a/b/' x.c", "edits: perl -i x.c"},
		{"perl run.pl", "runs: perl run.pl"},
		{"patch -p1 -i ../fix.patch", "edits: patch ../fix.patch"},
		{"git apply fix.patch", "edits+changes VCS: git apply"},
		{"cd src", "changes dir: cd"},
		{"export A=1", "environment: export"},
		{"source venv/bin/activate", "environment: source"},
		{". venv/bin/activate", "environment: ."},
		{"conda activate x", "environment: conda activate"},
		{"pytest -q tests/", "tests: pytest"},
		{"python3 -m pytest x", "tests: python -m pytest"},
		{"python -m unittest discover", "tests: python -m unittest"},
		{"go test ./...", "tests: go test"},
		{"npm test", "tests: npm test"},
		{"npm run test", "tests: npm run test"},
		{"npm run lint", "runs: npm run"},
		{"npm run build", "builds: npm run build"},
		{"cargo test", "tests: cargo test"},
		{"tox -e py3", "tests: tox"},
		{"make test", "tests: make test"},
		{"make", "builds: make"},
		{"python manage.py test app", "tests: python manage.py test manage.py"},
		{"python main.py --test", "runs: python main.py"},
		{"python -c 'import numpy'", "verifies: python -c"},
		{"python -c 'print(1)'", "runs: python -c"},
		{"python", "runs: python"},
		{"python --version", "verifies: python --version"},
		{"./scripts/deploy.sh", "runs: deploy.sh"},
		{"./gradlew test", "tests: gradlew test"},
		{"go build .", "builds: go build"},
		{"git --no-pager log", "inspects VCS: git log"},
		{"git commit -m 'a; b'", "changes VCS: git commit"},
		{"which jq", "verifies: which"},
		{"command -v jq", "verifies: command -v"},
		{"frobnicate x", ": frobnicate"},
		{"git", ": git"},

		{"pip install -r requirements.txt", "installs: pip install"},
		{"pip3 install --upgrade 'requests[socks]>=2' flask==2.0 -i https://x/simple numpy", "installs: pip install"},
		{"pip install -e .", "installs: pip install"},
		{"pip install . ./x.whl x.tar.gz $PKG git+https://g.io/a/b", "installs: pip install"},
		{"python -m pip install pyyaml", "installs: python -m pip install"},
		{"pip list", "verifies: pip list"},
		{"pip uninstall -y x", ": pip"},
		{"uv pip install --python 3.12 httpx~=0.27", "installs: uv pip install"},
		{"uv add pandas", "installs: uv add"},
		{"uv sync", "installs: uv sync"},
		{"poetry add --group dev pytest", "installs: poetry add"},
		{"npm install", "installs: npm install"},
		{"npm ci", "installs: npm ci"},
		{"npm i -D typescript@5 @types/node@20.1 --prefix web", "installs: npm i"},
		{"yarn", "installs: yarn"},
		{"yarn add left-pad@1", "installs: yarn add"},
		{"yarn global add x", "installs: yarn global add"},
		{"pnpm add -w zod", "installs: pnpm add"},
		{"sudo apt-get install -y --no-install-recommends jq curl=7.1", "installs: apt-get install"},
		{"apt-get -y install jq", "installs: apt-get install"},
		{"apt update", "installs: apt update"},
		{"apt install -t stable git", "installs: apt install"},
		{"brew install python@3.12", "installs: brew install"},
		{"conda install -y -c conda-forge numpy=1.26", "installs: conda install"},
		{"cargo install ripgrep --version 14.0", "installs: cargo install"},
		{"cargo add serde@1", "installs: cargo add"},
		{"go get example.com/x/y@latest", "installs: go get"},
		{"go install example.com/x/cmd/y@v1.2.3", "installs: go install"},
		{"go install ./cmd/...", "builds: go install"},
		{"go mod tidy", "installs: go mod"},
		{"gem install -v 1.0 rake", "installs: gem install"},
		{"apk add --no-cache bash", "installs: apk add"},
		{"dnf install -y gcc", "installs: dnf install"},
		{"yum install -y gcc make", "installs: yum install"},
	}
	for _, tt := range tests {
		commands, err := Parse(tt.line)
		if got := each(commands, describeAction); err != nil || !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s: got %q, %v, want %q", tt.line, got, err, tt.want)
		}
	}
}

func TestMainCommand(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"cd x && python y": "python", "source a && export B=1; pip install c": "pip", "ls | wc": "ls", "true; ls": "ls",
		"cd x": "cd", "export A": "export", "set -e\ncd a\nmake": "make",
	} {
		commands, err := Parse(line)
		if got, ok := MainCommand(commands); err != nil || !ok || got.Program != want {
			t.Errorf("%s: got %q, %v, want %q", line, got.Program, err, want)
		}
	}
	if got, ok := MainCommand(nil); ok {
		t.Errorf("no commands: got %v", got)
	}
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{
		"/usr/bin/python3.11": "python", "pip3": "pip", "./gradlew": "gradlew", "base64": "base64", "sha256sum": "sha256sum", "": "", "..": "..", "/": "/", "3.11": "3.11",
	} {
		if got := ProgramName(word); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

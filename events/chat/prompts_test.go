package chat_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"debrief/events/chat"
)

// The Curator refuses content that repeats a text of PromptTexts, so no instruction may be missing there.
func TestPromptTextsHasEveryInstruction(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("prompts_*.go")
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(chat.PromptTexts(), "\n")
	checked := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			checked++
			if !strings.Contains(all, text) {
				t.Errorf("%s: PromptTexts lacks %.60q", file, text)
			}
			return true
		})
	}
	if checked < 14 {
		t.Errorf("checked %d texts, want at least 14", checked)
	}
}

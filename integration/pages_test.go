package integration

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// page is a text that shows commands: a Markdown file, the comments of a Go file, or what a program says of itself.
type page struct {
	name, text string
	examples   bool // a program's: what follows two blanks explains the command
}

// example is a command of a page.
type example struct {
	page    string
	line    int
	section string // the heading that it stands under
	text    string // without the prompt, continued lines and all
	inline  bool   // in the middle of a sentence, and possibly not all of one
}

var (
	// begins tells a command from output, listings and prose. A role's name alone is a word of many tables.
	begins = regexp.MustCompile(`^([A-Z_]+=\S* )*(go (run|test|doc|build|install|tool|vet) |debrief( |$)|(generator|reflector|curator) -|` +
		`bin/\w|deploy/(\w+ |compose$)|(curl|docker|docker-compose|kubectl|nats-server|git|mkdir|cp|cat|zcat|for|echo) )`)
	inlineCode = regexp.MustCompile("`([^`]+)`")
	explained  = regexp.MustCompile(` {2,}\S.*$`)
)

// commands are those of a page. In a block with lines that begin with "$ " these are its commands and the rest is output;
// in one without, each line is a command if one of them is.
func (p page) commands() (all []example) {
	var (
		section string
		block   []string
		began   int
		fenced  bool
		prose   strings.Builder
	)
	flush := func() {
		all = append(all, p.block(section, began, block)...)
		block = nil
	}
	sentences := func(line int) {
		for _, m := range inlineCode.FindAllStringSubmatchIndex(prose.String(), -1) {
			text := strings.Join(strings.Fields(prose.String()[m[2]:m[3]]), " ")
			if begins.MatchString(text) {
				after := strings.Count(prose.String()[m[0]:], "\n")
				all = append(all, example{p.name, line - after + 1, section, text, true})
			}
		}
		prose.Reset()
	}
	for i, line := range strings.Split(p.text, "\n") {
		code, indented := strings.CutPrefix(strings.Replace(line, "\t", "    ", 1), "    ")
		switch fence := strings.HasPrefix(line, "```"); {
		case fence:
			flush()
			fenced = !fenced
		case fenced:
			code, indented = line, true
			fallthrough
		case indented && prose.Len() == 0:
			if len(block) == 0 {
				began = i + 1
			}
			block = append(block, code)
		case strings.TrimSpace(line) == "":
			sentences(i)
			if len(block) > 0 {
				block = append(block, "")
			}
		default:
			flush()
			if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
				section = heading[1:]
				continue
			}
			prose.WriteString(line + "\n")
		}
	}
	flush()
	sentences(strings.Count(p.text, "\n"))
	return all
}

// block are the commands of a block.
func (p page) block(section string, began int, lines []string) (all []example) {
	prompt, known := false, false
	for _, line := range lines {
		prompt = prompt || strings.HasPrefix(line, "$ ")
		known = known || begins.MatchString(line)
	}
	if !prompt && !known {
		return nil
	}
	for i := 0; i < len(lines); i++ {
		text, asked := strings.CutPrefix(lines[i], "$ ")
		if text == "" || prompt && !asked || strings.HasPrefix(text, "#") {
			continue
		}
		if p.examples {
			text = explained.ReplaceAllString(text, "")
		}
		line := began + i
		for _, open := simple(text); open && i+1 < len(lines); _, open = simple(text) {
			i++
			text += "\n" + lines[i]
		}
		all = append(all, example{p.name, line, section, text, false})
	}
	return all
}

// simple are the simple commands of a line of shell, without comments; open is whether the line goes on with the next.
// It knows what the pages use: quotes, continuations, comments, lists, pipes, subshells, and loops on one line.
func simple(text string) (all []string, open bool) {
	var (
		part  strings.Builder
		quote rune
		last  rune
	)
	end := func() {
		if s := strings.TrimSpace(part.String()); s != "" && s != "done" {
			all = append(all, strings.TrimPrefix(s, "do "))
		}
		part.Reset()
	}
	comment := false
	for _, c := range strings.ReplaceAll(text, "\\\n", " ") {
		switch {
		case comment:
			comment = c != '\n'
		case quote != 0:
			if c == quote {
				quote = 0
			}
			part.WriteRune(c)
		case c == '"' || c == '\'':
			quote = c
			part.WriteRune(c)
		case c == '#' && (last == ' ' || last == 0):
			comment = true
		case strings.ContainsRune("&|;()\n", c):
			end()
		default:
			part.WriteRune(c)
		}
		last = c
	}
	end()
	return all, quote != 0 || strings.HasSuffix(text, "\\")
}

// pages are all texts of the repository that may show commands.
func pages(t *testing.T) (all []page) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != ".." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		ext := filepath.Ext(path)
		if ext != ".md" && ext != ".go" {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		p := page{name: filepath.ToSlash(strings.TrimPrefix(path, ".."+string(filepath.Separator))), text: string(data)}
		if ext == ".go" {
			p.text = comments(p.text)
		}
		all = append(all, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// comments are the comments of a Go file that fill their lines; every other line is empty.
func comments(source string) string {
	lines := strings.Split(source, "\n")
	for i, line := range lines {
		text, ok := strings.CutPrefix(line, "//")
		if !ok {
			text = ""
		}
		lines[i] = strings.TrimPrefix(text, " ")
	}
	return strings.Join(lines, "\n")
}

package rules

import "strings"

// commands splits a line into commands, and each command into words. It omits filters behind a pipe, because their
// input is that of the first program. It handles quotes and backslashes, and omits comments and the bodies of
// here-documents.
func commands(line string) [][]string {
	l := lexer{line: line[:min(len(line), maxLine)]}
	for ; l.at < len(l.line) && len(l.commands) < maxParts; l.at++ {
		l.next(l.line[l.at])
	}
	if len(l.commands) < maxParts {
		l.endCommand(false)
	}
	return l.commands
}

// lexer splits a command line. Each method leaves at on the last byte that it has read.
type lexer struct {
	line     string
	at       int
	commands [][]string
	words    []string // of the current command
	word     strings.Builder
	inWord   bool   // a word has begun; it may be empty, as in ""
	piped    bool   // the current command is behind a pipe
	brackets int    // open within a word
	here     string // end mark of the here-document that begins on the next line
}

func (l *lexer) next(c byte) {
	switch {
	case c == '\'' || c == '"':
		l.quoted(c)
	case c == '\\' && l.at+1 < len(l.line):
		if l.at++; l.line[l.at] != '\n' {
			l.add(l.line[l.at])
		}
	case c == ' ' || c == '\t' || c == '\r':
		l.endWord()
	case c == '#' && !l.inWord:
		for l.at+1 < len(l.line) && l.line[l.at+1] != '\n' {
			l.at++
		}
	case c == '\n':
		if l.endCommand(false); l.here != "" {
			l.at = pastHere(l.line, l.at, l.here)
			l.here = ""
		}
	case c == ';' || c == '(' && !l.inWord || c == ')' && l.brackets == 0:
		l.endCommand(false)
	case c == '(':
		l.brackets++
		l.add(c)
	case c == ')':
		l.brackets--
		l.add(c)
	case c == '&' && (l.follows('>') || len(l.words) > 0 && l.words[len(l.words)-1] == ">"): // &> and >&1
		l.add(c)
	case c == '&':
		l.skip('&')
		l.endCommand(false)
	case c == '|':
		l.endCommand(!l.skip('|'))
	case c == '<' && strings.HasPrefix(l.line[l.at:], "<<"):
		l.endWord()
		l.at, l.here = hereMark(l.line, l.at+2)
	case c == '>':
		l.redirect()
	default:
		l.add(c)
	}
}

func (l *lexer) add(c byte) {
	l.inWord = true
	l.word.WriteByte(c)
}

// follows reports whether c is the next byte.
func (l *lexer) follows(c byte) bool { return l.at+1 < len(l.line) && l.line[l.at+1] == c }

// skip reads the next byte if it is c, and reports whether it was.
func (l *lexer) skip(c byte) bool {
	if !l.follows(c) {
		return false
	}
	l.at++
	return true
}

// quoted reads a quotation up to its closing mark.
func (l *lexer) quoted(mark byte) {
	l.inWord = true
	for l.at++; l.at < len(l.line) && l.line[l.at] != mark; l.at++ {
		if l.line[l.at] == '\\' && mark == '"' && l.at+1 < len(l.line) {
			l.at++
		}
		l.word.WriteByte(l.line[l.at])
	}
}

// redirect reads the redirection of an output. It adds ">" to the words if the next word is a file that is written.
// Standard error is ignored.
func (l *lexer) redirect() {
	onlyErrors := false
	if s := l.word.String(); l.inWord && (s == "1" || s == "2" || s == "&") { // the number of a file descriptor
		l.word.Reset()
		l.inWord, onlyErrors = false, s == "2"
	}
	l.endWord()
	if n := len(l.words); !onlyErrors && n > 0 && l.words[n-1] == "2" {
		l.words, onlyErrors = l.words[:n-1], true
	}
	if !onlyErrors {
		l.skip('>')
		l.words = append(l.words, ">")
		return
	}
	for l.follows('>') || l.follows(' ') {
		l.at++
	}
	for l.at+1 < len(l.line) && strings.IndexByte(" \t\n;|", l.line[l.at+1]) < 0 {
		l.at++
	}
}

func (l *lexer) endWord() {
	if l.inWord {
		l.words = append(l.words, l.word.String())
		l.word.Reset()
		l.inWord = false
	}
}

// endCommand ends the current command. piped is true if its output is the input of the next one.
func (l *lexer) endCommand(piped bool) {
	l.endWord()
	if len(l.words) > 0 && !l.piped {
		l.commands = append(l.commands, l.words)
	}
	l.words, l.piped = nil, piped
}

// hereMark returns the word that ends a here-document, and the index where the line continues.
func hereMark(line string, i int) (int, string) {
	for i < len(line) && (line[i] == '-' || line[i] == ' ' || line[i] == '<') {
		i++
	}
	from := i
	for i < len(line) && !strings.ContainsRune(" \t\n;|&>", rune(line[i])) {
		i++
	}
	return i - 1, strings.Trim(line[from:i], `'"\`)
}

// pastHere returns the end of the body of a here-document that begins behind the newline at i.
func pastHere(line string, i int, mark string) int {
	for i < len(line) {
		next := strings.IndexByte(line[i+1:], '\n')
		if next < 0 {
			return len(line)
		}
		if strings.TrimSpace(line[i+1:i+1+next]) == mark {
			return i + next
		}
		i += 1 + next
	}
	return i
}

package modelapi

import "bytes"

// eventStream splits server-sent events, whose bytes may be split anywhere.
type eventStream struct {
	emit func(name string, data []byte) // data is valid until it returns

	line    []byte // the beginning of an incomplete line
	started bool   // the first line is complete
	afterCR bool   // the last line ended with CR: if LF is next, it belongs to that end

	// The current event.
	name    string
	data    []byte
	hasData bool // there is a line with data, which may be empty
}

func (s *eventStream) write(p []byte) {
	for len(p) > 0 {
		if s.afterCR {
			s.afterCR = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		i := lineEnd(p)
		if i < 0 {
			s.line = append(s.line, p...)
			return
		}
		line := p[:i]
		if len(s.line) > 0 {
			s.line = append(s.line, line...)
			line = s.line
		}
		s.endLine(line)
		s.line = s.line[:0]
		s.afterCR = p[i] == '\r'
		p = p[i+1:]
	}
}

// lineEnd returns the index of the first CR or LF, or -1. Two searches for one byte are faster than one for both.
func lineEnd(p []byte) int {
	lf := bytes.IndexByte(p, '\n')
	if lf >= 0 {
		p = p[:lf]
	}
	if cr := bytes.IndexByte(p, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// endLine handles a complete line.
func (s *eventStream) endLine(line []byte) {
	if !s.started {
		s.started = true
		line = bytes.TrimPrefix(line, []byte("\uFEFF"))
	}
	if len(line) == 0 {
		s.endEvent()
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) { // a comment has an empty field
	case "event":
		s.name = string(value)
	case "data":
		if s.hasData {
			s.data = append(s.data, '\n')
		}
		s.data, s.hasData = append(s.data, value...), true
	}
}

func (s *eventStream) endEvent() {
	if s.hasData {
		s.emit(s.name, s.data)
	}
	s.name, s.data, s.hasData = "", s.data[:0], false
}

// close ends the last line and the last event, because some servers write no blank line behind the end marker. The data of an event that
// was cut is not valid JSON, so that the Collector ignores it.
func (s *eventStream) close() {
	if len(s.line) > 0 {
		s.endLine(s.line)
		s.line = s.line[:0]
	}
	s.endEvent()
}

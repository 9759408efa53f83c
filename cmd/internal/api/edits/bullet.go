package edits

import (
	"debrief/events"
	"debrief/events/redact"

	book "debrief/playbook"
)

// Add returns the operation that adds a bullet. Content must be clean.
func Add(content, section string) book.Op {
	return book.Op{Kind: book.Add, Section: storedSection(section), Content: content}
}

// Update returns the operation that changes a bullet. Empty content and an empty section keep those of the bullet. Content
// must be clean.
func Update(was events.Expectation, content, section string) book.Op {
	op := book.Op{Kind: book.Update, Bullet: was.Bullet, Content: content}
	if content == "" {
		op.Content = was.Content
	}
	if section != "" {
		op.Section = storedSection(section)
	}
	return op
}

// Merge returns the operation that merges bullets into the first one. Empty content keeps that of the first bullet. Content
// must be clean.
func Merge(was []events.Expectation, content string) book.Op {
	op := book.Op{Kind: book.Merge, Bullet: was[0].Bullet, Content: content}
	if content == "" {
		op.Content = was[0].Content
	}
	for _, source := range was[1:] {
		op.Sources = append(op.Sources, source.Bullet)
	}
	return op
}

// storedSection returns the stored form of a section. It replaces secrets first, because Section changes the characters
// that identify them.
func storedSection(text string) string { return book.Section(redact.ID(text)) }

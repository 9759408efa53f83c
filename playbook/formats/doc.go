// Package formats imports and exports playbooks in several file formats. It works only on bytes and bullets: it opens no
// files and reads no clock. Each repair of an import is listed in the Document's Notes. Each value that a format cannot
// store is listed in the Losses of an export.
//
// Only bullets are imported. Read ignores the rest of a file: a preamble, embeddings, fields of another tool. An export has the layout of
// the tool whose format it is, and Read returns the same bullets from it, except for the Losses. An export of imported bullets is not
// the imported file, because it lacks the rest.
//
// # Text: ace
//
// The rules are those of two repositories: the bullets of ace-agent/ace have counters, those of ace-agent/ace-appworld have none. A line is
// the first of these that matches:
//
//   - a header: "##" at the start of the line;
//   - a bullet with counters, "[id] helpful=1 harmful=0 :: content", white space before it allowed;
//   - a malformed bullet: it starts like a bullet with counters, but lacks the two numbers. It is ignored, with a Note;
//   - in a file without counters a bullet "[id] content" at the start of the line. The id is a letter followed by
//     letters, digits or any of _ - . : /, so that "[x] done", "[1, 2]" and "[i for i in all]" are not bullets. The
//     content may begin on the next line if the id ends in a number;
//   - any other line. In a file without counters it belongs to the bullet above it. In a file with counters only a line that is
//     indented by two spaces does, because Write indents the second and later lines of a content by two spaces.
//
// A section's name is the text of its header, normalized by playbook.Section, without a colon at the end. Bullets above
// the first header are in "general". One section of appworld is PROBLEM-SOLVING in the template and
// problem_solving in the table of slugs. The authors' tool treats these as two sections, this package as one.
//
// The format has no escape character. A content line that looks like a header or a bullet is written with a backslash
// before it, which is a Loss. Indentation would not help, because the authors' parsers trim every line.
//
// # JSON: kayba, swecli, json, jsonl
//
// kayba is the map of items of kayba-ai/agentic-context-engine. Version 0.6 and earlier call them bullets, later ones skills. The key
// of an item is its id; next_id is the last number used; a status other than active is read as retired. Schema version 2, which
// has issues and insights instead of contents, is rejected. In swecli next_id is the next free number. A time without a
// zone is read as UTC. An item with a field of another type is skipped with a Note.
//
// The project's own formats, json and jsonl, store every field of a bullet. They have the condition twice: in the field when, and at the beginning
// of the content. Read adds a condition that is missing in the content. The other formats have it only in the content, which is a Loss.
//
// json is {"format":"debrief-playbook","schema":1,"book":name,"bullets":[…]}. jsonl has that object without
// bullets on the first line and one bullet on each following line. A jsonl file without the first line is read with a Note, because other
// tools may have filtered its lines. An incomplete line is an error with its line number.
//
// markdown is the playbook in the form of playbook.Render, as a model sees it. It can only be written.
package formats

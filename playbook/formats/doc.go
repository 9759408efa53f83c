// Package formats imports and exports playbooks in several file formats. It works only on bytes and bullets: it opens no
// files and reads no clock. Each repair of an import is listed in the Document's Notes. Each value that a format cannot
// store is listed in the Losses of an export.
//
// Only bullets are imported. Read ignores the rest of a file: a preamble, embeddings, fields of another tool. An export
// reads back as the same bullets, in the layout of the tool that has the format. It does not reproduce an imported file.
//
// # Text: ace and appworld
//
// The rules are those of the tools that write these files: playbook_utils.py of ace-agent/ace, and playbook.py of
// ace-agent/ace-appworld, whose three published playbooks are among the tests. A line is the first of these that matches:
//
//   - a bullet with counters, "[id] helpful=1 harmful=0 :: content", white space before it allowed;
//   - in ace a header, "##" after any white space; in appworld "##" at the start of the line, because code is indented;
//   - in appworld a bullet without counters, "[id] content" at the start of the line. The id is a letter followed by
//     letters, digits or any of _ - . : /, so that "[x] done", "[1, 2]" and "[i for i in all]" are not bullets. The
//     content may begin on the next line if the id ends in a number;
//   - a malformed bullet: it starts like a bullet with counters and lacks the two numbers. It is ignored, with a Note;
//   - any other line. In appworld it belongs to the bullet above it, and so do blank lines before it. In ace it is
//     ignored, with a Note. Lines indented by two spaces are an exception: Write indents the second and later lines of a
//     content like this, and Read adds them to the content.
//
// In appworld the lines of a code block are always content. A code block begins with a line that ends in three
// backquotes, or in these and the name of a language, and ends with the next line of three backquotes. If a bullet whose
// id ends in "-" and a number begins in between, the block counts as never closed. Otherwise it would include the bullets
// after it.
//
// A section's name is the text of its header, normalized by playbook.Section, without a colon at the end. Bullets above
// the first header are in "general" (ace) or "others" (appworld), like in the authors' tools. The appworld template
// writes PROBLEM-SOLVING and its table of slugs writes problem_solving. The authors' tool treats them as two sections,
// this package as one.
//
// Neither format has an escape character. A content line that looks like a header or a bullet is written with a backslash
// before it, and so are backquotes that open a code block and never close it. Each is a Loss. Indentation would not help,
// because the authors' parsers trim every line. (The appworld parser reads any line that begins with a bracket as a
// bullet. Of these, only lines with a valid id get a backslash, because the rest is mostly code.) Write parses its output
// again before it returns, so that no content can become a section, a bullet or a vote.
//
// # JSON: kayba, swecli, json, jsonl
//
// The rules for kayba are from kayba-ai/agentic-context-engine: playbook.py of its versions up to 0.6 (the map of items
// is called bullets), skillbook.py from 0.7 on (skills), and a published skillbook. The key of an item is its id; next_id
// is the last number used; a status other than active is read as retired. Schema version 2, which has issues and insights
// instead of contents, is rejected. In swecli next_id is the next free number. Its times have no zone; they are read as
// UTC, with a Note. Later versions of swecli write the format of kayba up to 0.6, and are read as kayba.
//
// A counter that is not a non-negative integer is read as 0, and an invalid time as the zero time, each with a Note. An
// item without valid content is skipped with a Note. The section of a bullet is the one in its item; the section lists of
// kayba are only checked for unknown ids.
//
// The project's own formats store every field of a bullet. json is {"format":"debrief-playbook","schema":1,"book":name,
// "bullets":[…]}. jsonl has that object without bullets on the first line and one bullet on each following line. A jsonl
// file without the first line is read with a Note, because other tools may have filtered its lines. An incomplete line is
// an error with its line number.
//
// markdown is the playbook in the form of playbook.Render, as a model sees it. It can only be written.
package formats

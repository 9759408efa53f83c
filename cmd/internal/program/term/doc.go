// Package term is the only way of the programs to standard output and standard error. Text from agents, models and files
// must not control the terminal. Everything written here is therefore cleaned: control characters, bidirectional controls
// and invalid UTF-8 never reach the terminal. The programs' own control sequences have the type Sequence.
//
// Fprintf and the other print functions also keep each argument on one line. Text with several lines is passed as a Block.
//
// Cleaned characters appear as JSON escapes (\u001b), so JSON stays valid and keeps its value.
package term

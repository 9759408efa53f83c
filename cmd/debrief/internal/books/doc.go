// Package books has the commands on playbooks, feedback and contexts. Changes go through a Curator: no command writes to a playbook.
//
// The flags of a command are the fields of a struct. Its method Run is the command, and Help returns its long help.
package books

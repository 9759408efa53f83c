// Package books has the commands on playbooks, feedback and contexts. The flags of a command are the fields of a struct; Run
// is the command. Changes go through a Curator: no command writes to a playbook.
package books

// Package ops has the commands that run and operate Debrief: the server with the roles, tasks, status, diagnosis, dead letters, backups,
// credentials, set-up and the simulated model.
//
// The flags of a command are the fields of a struct. Its method Run is the command, and Help returns its long help. Check, and Validate while
// the command line is parsed, return errors for invalid flags.
package ops

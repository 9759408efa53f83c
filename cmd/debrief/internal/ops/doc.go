// Package ops has the commands that run and operate Debrief: the server with the roles, tasks, status, diagnosis, dead
// letters, backups, credentials, set-up and the simulated model. The flags of a command are the fields of a struct; Run is
// the command.
package ops

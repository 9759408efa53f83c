// Package ops has the commands that run and operate Debrief: the server with the roles, tasks, status, diagnosis, dead letters, backups,
// credentials, set-up and the simulated model.
//
// A command is a struct whose fields are its flags. Package program finds its methods by their names:
//
//   - Help returns the long help.
//   - Validate returns errors for invalid flags, while the command line is parsed.
//   - Check does the same after that. It also reads the files that flags name.
//   - Run executes the command.
package ops

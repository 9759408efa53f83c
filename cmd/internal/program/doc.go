// Package program contains the parts that the programs share: configuration, logging, connections, running roles and exit
// codes. Each program defines its own flags and roles. The package does not import the embedded server, so worker
// programs do not contain it.
//
// Package cli has the parts that commands share, among them the start of a server. Package term is the only way of all programs to
// the terminal.
//
// Package program never does the work of a role, never starts a server, and never prints a secret.
//
// # The walk of a setting
//
// A setting is a flag, an environment variable or a line of a file, in this order, or a default of the library that uses it.
//
//	program.go   Main         parses the command line, runs the command until a signal, exits with a code
//	settings.go  newSettings  reads the file that --config names; Resolve finds the value of a flag, and where it came from
//	arguments.go checkRivals  checks of the command line that kong does not have
//	mapping.go   copyFields   flags to the Config of a library, whose errors FlagErrors translates back to flags
//	nats.go      Dial, Open   the connection, with the user of the program, and its streams
//	model.go     Client       the model of a role, with its key
//	roles.go     Generator …  the flags of each role; gateway.go, retention.go and telemetry.go have further flags
//	worker.go    Work         connection, health, metrics and one role
//	health.go    Serve        health checks over HTTP
//	worker.go    Run          all roles of a process; the first error stops the others
//	exit.go      ExitCode     the meaning of an error for a script
package program

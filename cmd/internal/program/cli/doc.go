// Package cli has the parts that commands share: the connection to a server or to an embedded one, playbooks, and output. It has
// no commands. Worker programs do not use it, because it links the server.
//
// A command connects with the method of ServerFlags for its purpose:
//
//	Connect                 --nats, or the server on the data directory, which it starts if none runs
//	ConnectRestoring        the same for the restore of a backup
//	ConnectReading          the same without creating a directory or a stream; the default server if there is no directory
//	ConnectReadingOrEmpty   the same, or an empty temporary server
//	ConnectChanging         ConnectReading, then missing streams are created
//	ConnectRunning          a server that already runs; starts none
//	Attach                  any server, with or without streams, for a diagnosis
//	StartServer             a server on the data directory, which may listen at an address
//	StartTemporary          a server on a temporary directory
package cli

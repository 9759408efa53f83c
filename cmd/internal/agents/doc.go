// Package agents is the room for agents that speak another protocol than a model API. On the machine of a user, coding agents get advice by
// hooks, and their work is reported as runs. Over the Model Context Protocol (MCP), an agent looks up rules of a playbook, reports its runs
// and proposes corrections. Over OTLP, traces of agents become runs.
//
// The room never decides what may be shown, who may see it, or what counts: it is a client of the API and of the service, like every agent.
// It never writes a token or an address into a file of a repository or of an agent. Its hooks never show advice of a playbook that the user
// has not connected with the repository on this machine, and never delay an agent for more than 300 ms.
//
// # The walk of a message
//
//	connect.go           Connect       before: the user connects an agent in a repository; its settings get the hooks
//	event.go             parse         the event of the agent: a message of the user
//	repository.go        Of            the repository around the directory of the agent, and the consent of the user
//	hook.go              advise        asks the API for advice, and leaves out what the conversation has
//	event.go             adviceOutput  the output in the form of the agent
//	hook.go              spoolRun      when the agent stops: the run goes into the spool, and another process starts
//	spool.go             HandOver      that process reports the runs that wait
//	report.go            reportOf      the steps of the transcript; package runs reads it, and events/outcome finds the outcome
//
// json.go and server.go edit the settings of agents. Disconnect restores the files byte for byte. Files such as CLAUDE.md are written by the
// package playbook/formats (block.go).
//
// # The walk of a tool call over MCP
//
//	mcp/handler.go       ServeHTTP     the path names the playbook, and the API checks the token of the request
//	mcp/server.go        newServer     the tools and resources for this request; over stdio for all requests of a process
//	mcp/tools.go         report        the arguments become a request to the API
//	mcp/server.go        errorResult   the error of the API becomes a result with its code and field
//	mcp/resources.go     read          the playbook and its bullets as text
//
// # The walk of a trace
//
//	otlp/handler.go      ServeHTTP     the token decides the owner and the playbook; the body is read within its limits
//	otlp/decode.go       decodeTraces  the spans, as protobuf or JSON, with secrets replaced; decodeLogs has the events of models in logs
//	otlp/buffer.go       Put           stores the spans until their trace is complete; then the client gets its answer
//	otlp/close.go        sweep         finds complete traces, of this and of other gateways
//	otlp/close.go        close         package runs reads the trace; its runs are reported, and its spans deleted
//	otlp/close.go        rate          an evaluation that came after its run was reported becomes feedback
package agents

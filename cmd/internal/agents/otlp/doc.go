// Package otlp receives the traces of agents over OTLP/HTTP, as protobuf or JSON, and reports the runs in them. It serves /v1/traces and
// /v1/logs of the gateway; the exporters of an OpenTelemetry SDK need only its URL, and with tokens a header. Of the log only the events of
// models count: messages, choices and evaluations that name their span.
//
// The spans of a trace arrive in any order, in several requests and often twice, the root last. Store keeps them until the trace is
// complete: until no span came for 30 seconds after the root, and at most for ten minutes. Then package runs reads the trace, and its runs
// are reported like those of any other agent. The token of the request decides the owner and the playbook of the runs. No attribute of a
// span can change them.
//
// The id of a run has the id of its trace. So a trace that is exported again, or a span that comes late, is the same execution, which
// counts once.
package otlp

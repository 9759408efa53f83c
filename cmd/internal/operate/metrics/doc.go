// Package metrics exports a program's metrics to Prometheus. The roles and the transport do not depend on it. They count in
// their own structs (bus.RoleStats, openai.Stats) or report to a small interface (deltalog.Meter, curator.Meter, generator.Meter,
// service.Observer), and this package converts that to metrics. Each process has one registry, which has only the metrics of the
// process's parts. A metric is exported from the start, with the value 0.
//
// Labels never contain a bullet, a task or a session: each label has a small, fixed set of values. The label playbook has those that
// Figures names, and "other" for the rest. Labels are bound at the start of the program, so that counting does not allocate.
//
// The output of /metrics lists the metrics of a program, each with its help. The name ends with the unit: _seconds, _bytes, _dollars,
// _messages; a counter's with _total.
package metrics

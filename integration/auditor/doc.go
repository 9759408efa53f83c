// Package auditor recomputes the expected state of a Debrief installation from the raw messages of a NATS server, and
// compares it with the actual state. It shares no code with the product: it imports the NATS client and the MessagePack
// library, and its types repeat the wire format. It therefore also finds defects of the product's codec, fold and index.
//
//	streams.go   Read           the messages of the streams
//	wire.go                     the wire format of events and playbooks
//	auditor.go   Check          each accepted event has one effect: the log of each playbook is folded in fold.go
//	runs.go      CheckRuns      each run of an agent is stored once
//	outcomes.go  CheckOutcomes  the numbers of the learning curve
//	worth.go     CheckWorth     the comparison with the control group
package auditor

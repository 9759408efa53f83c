// Package operate has the tools of an operator. The package itself finds, lists and shows dead letters, and counts requeued ones. Its
// subdirectories have these packages:
//
//	doctor   checks of everything that a pipeline needs, with fixes
//	rights   the users of a NATS server with their rights, and the server's configuration
//	metrics  metrics of the programs for Prometheus
//	backup   copies of the streams, taken while the pipeline runs
//	erase    the removal of the data of a person, a session, a task or a playbook
//
// They never decide how a message is handled, because package bus has the failure policy. They never change a playbook: an erasure
// requests edits of the Curator.
//
// # The walk of a check
//
//	doctor/doctor.go    Server, Resources  the server, its streams and buckets
//	doctor/rights.go    Rights, Roles      the rights of each user, against the list of package rights
//	doctor/storage.go   Disk, Playbooks    room on the disk, and the log of each playbook
//	doctor/model.go     Models             a call of the model, as the workers make it
//	doctor/overview.go  ReadOverview       roles, lag and dead letters, as status and the console show them
package operate

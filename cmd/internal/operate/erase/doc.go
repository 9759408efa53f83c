// Package erase removes the data of a person, a session, a task or a playbook from a server. A request names whose data must go; package
// erasure stores it, and keeps the data from coming back. Eraser.Run carries out all requests.
//
// Tombstones, which package erasure stores with the requests, decide which runs are erased: Run removes every message that matches one. So it
// keeps no other state. If it is interrupted at any point, the next Run finds the rest. A Run after a restore from an older backup removes
// the data of all later erasures again.
//
// # The walk of a request
//
//	erasure/erasure.go  Store.Add        stores the request and the tombstone; from then on no process stores or handles its runs
//	erase.go            Eraser.Run       repeats the following until a search finds nothing
//	find.go             Eraser.find      searches the logs, then the streams, for messages about the runs
//	about.go            aboutStored      the names and ids in a message
//	log.go              Eraser.eraseLogs has the Curator forget the runs, remove bullets that copy their texts, and redact the deltas with these texts
//	erase.go            Eraser.removeAdvice removes these texts from the advice that the gateway has given to runs of others
//	erase.go            Eraser.remove    deletes the messages; the server overwrites them
//	overwrite.go        Eraser.overwrite writes streams again in which newer messages have replaced older ones
//	erase.go            Eraser.finish    removes the names in the request
//
// This remains:
//
//   - hashes of ids, counts and times
//   - the checksums of the texts of removed bullets in executions of others (events.ShownBullet)
//   - messages of TASKS that were answered, and messages that had expired before, until the server removes the file that they are in
//   - files that a server of a cluster has not compacted yet
//   - copies of a bullet whose text a person has changed, and a copy that was stored while its source was erased
//
// Log files of the programs, traces, and backups made before are not touched.
package erase

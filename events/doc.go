// Package events defines the messages that the workers of Debrief exchange: types, subjects, ids and encoding. It has
// no connection, no clock and no policy. Package bus publishes and receives the events.
//
// Agents in Go: see package client. Programs that change a playbook: see Edit and bus.Request. The rest is the protocol.
//
// # Overview
//
// A playbook, or book, is a list of bullets. A bullet is one piece of advice for a model. Three workers improve a book.
// They communicate only through NATS JetStream:
//
//	        Task              Execution              Reflection             Delta
//	client ──────▶ Generator ───────────▶ Reflector ────────────▶ Curator ───────▶ log of the book
//	                   ▲                                             │
//	                   └─────────────── playbook view (KV) ──────────┘
//
// The loop has three steps:
//
//   - The Generator answers a task with the bullets of the book in its prompt. It publishes an Execution.
//   - The Reflector analyses the outcome of the execution. It publishes a Reflection: votes on bullets, and new lessons.
//   - The Curator turns reflections into a Delta, appends the delta to the log of the book, and updates the view.
//
// Feedback records or corrects the outcome of an execution later. An Edit is a change of the book by an operator. A
// DeadLetter is a message that a role could not process.
//
// The sections below describe the guarantees, and then each stream and bucket: subject, publisher, id, acknowledgement,
// and the effect of a copy. Read next: package bus for delivery and the failure policy, package playbook for deltas, and
// then one of the roles.
//
// # Terms
//
//	book        the name of a playbook; one token of each subject
//	owner       the id of the access token whose bearer submitted a task; clients without a token are the common owner
//	session     a conversation of an agent; its earlier turns are in the prompts of the later ones
//	role        generator, reflector or curator: a worker program and its durable consumer
//	round       one run of the model on a task. After a wrong answer the Reflector may publish the task again, with
//	            its advice. That is the next round.
//	sample      all rounds of one task. A sample has at most one vote on each bullet.
//	experiment  a randomised test of a bullet: the bullet is shown to some tasks and withheld from others
//	control     the control share is the random part of the sessions that get no learned text, to measure its worth
//	handle      the public name of a stored event: its stream sequence and the start of its id
//	covered     an id is covered if the log contains the effect of its event
//	view        the current bullets of a book in a key-value bucket, computed from the log
//
// # Delivery and ids
//
// A role publishes its results, waits until the server has stored them, and then acknowledges its input. A crash between
// two steps repeats work and loses none. So every consumer must expect copies of a message.
//
// An id is a hash of the input of the event (H below, see Hash), so that copies have the same id. It is the Nats-Msg-Id
// of the message, so the server drops copies that arrive within two minutes. The Curator guarantees that each event takes
// effect once. A delta lists the ids of the executions, feedback and edits whose effect it has; these ids are covered.
// Before each commit the Curator looks up every event in an index of all covered ids. It does not rely on the
// redelivery flag of a message.
//
// # Replies and encodings
//
// A stream answers a publish with an acknowledgement on the reply subject of the message. It says only that the message
// is stored. A client that wants the result names an inbox in the header Debrief-Reply of a task or an edit. The worker
// sends the result there after it is stored, with the handle in the header Debrief-Handle. If the message becomes a dead
// letter, the worker sends the reason in the header Debrief-Error, also if it cannot decode the message. The text names
// the invalid field or header.
//
// A client that sets only the reply subject, as a plain NATS request does, gets the acknowledgement and nothing else. It
// gets no error for a message that no worker can decode: the server does not store the reply subject, so no worker knows
// it. "debrief dead list" shows such messages.
//
// Payloads are MessagePack, with the schema version in the header Debrief-Schema. A task may also be JSON, with the header
// "Content-Type: application/json" and the JSON names of its fields. Then unknown and duplicate fields are errors, the
// schema header is optional, and the replies are JSON: the Execution, or an ErrorReply. "debrief schema" prints the JSON
// Schema of each message.
//
// # Stream TASKS
//
//	subject    debrief.task.<book> for the common owner, and debrief.task.<book>.<owner> for others. The owner of a task is the one
//	           in its subject. Only the gateway and operators have the right to the second form.
//	           debrief.round.<book>.<owner> for a further round, which carries the earlier ones; the common owner is "_". Only
//	           the Reflector publishes it. The gateway and operators have the right, too, to requeue dead letters.
//	publisher  clients; replays; the Reflector, for another round at a task
//	id         H("task", book, owner, run id of the client), and the round if it is not the first. The run id is required.
//	encoding   MessagePack, or JSON with the header "Content-Type: application/json"; see Replies and encodings
//	acked      by the Generator, after the Execution is stored and is in the window of its session, and after the
//	           answer was sent to the reply subject of the task.
//	copy       The model is called again, and the Execution has the same id. The first stored Execution counts:
//	           the server drops the second within two minutes, and later the Curator ignores its Reflection.
//
// # Stream EXECUTIONS
//
//	subject    debrief.execution.<book>, debrief.feedback.<book>
//	publisher  the Generator, or the service for outside agents; for feedback also the operator's tools
//	id         H("execution", book, owner, run id, round); for feedback H("feedback", book, owner, execution, id of the client),
//	           or a random one
//	acked      by the Reflector, after it has stored the Reflection or the Task of the next round. It acks at
//	           once if there is nothing to learn: purpose "evaluate", or no outcome, no other signal and no experiment.
//	copy       Reflected on again. The Curator finds the execution or the feedback covered.
//
// Feedback waits for the reflection on its execution, because it moves the votes of that reflection. The wait is bounded.
// If the execution had no outcome and no other signal, there are no votes to move, and the first feedback does not wait.
// The state bucket records which feedback was the first.
//
// # Stream REFLECTIONS
//
//	subject    debrief.reflection.<book>, debrief.edit.<book>
//	publisher  the Reflector; for edits the operator's tools
//	id         H("reflection", execution id, feedback id or "", reflector version); for an edit the id of the client
//	acked      by the Curator, after the Delta that covers the event is stored
//	copy       Found covered, then acked. A Reflection is covered if the log has the id of its feedback, or else of
//	           its sample. Its stream sequence and the reflector version do not matter.
//
// An Edit is applied completely or refused; the Curator replies in both cases. A restore and a removal of evidence are
// computed from the newest version, and again if another delta was committed meanwhile. The same holds for a
// Reflection on feedback: it replaces the effect of its execution, after the earlier reflections on the same sample. Of
// several feedback messages on one execution, the one with the highest sequence counts.
//
// # Held reflections
//
// A replay can choose the batches of reflections itself, so that the result does not depend on timing. It sets
// Origin.Held on its tasks. Then each execution has a Reflection, also if there is nothing to learn, and feedback has no
// effect. The Curator acks a held Reflection without covering it. An Edit that lists the Reflection in Gather applies it.
//
// That Edit is one change, which covers the Edit and its reflections in the given order. It is refused as a whole if a
// handle is invalid, and retried as a whole if a model fails. A Reflection that is covered already is left out. A
// refused Edit is not covered, so each copy of it is processed again.
//
// # Stream DELTAS
//
//	subject    debrief.delta.<book>
//	publisher  the Curator alone, one delta at a time for each book, by compare-and-swap on the subject's last sequence
//	id         none: the compare-and-swap decides
//	readers    the Curator and tools that rebuild or show history. Deltas are never acked. Only an erasure of texts deletes a
//	           delta; a redaction in the stream REDACTIONS takes its place, see package deltalog.
//	copy       Refused by the compare-and-swap. A writer with an unclear result reads the log.
//
// A change that is too large for one delta is a sequence of deltas. They take effect with the last one. If a crash or
// another writer interrupts the sequence, none of them takes effect.
//
// # Stream DEAD
//
//	subject    debrief.dead.<role>.<code>.<book>.<id>
//	publisher  the bus of a worker, before it acks a message that it cannot process
//	id         H("dead", role, stream, sequence, message id). The publish expects sequence 0 for this id and any code,
//	           so a message has one dead letter, also if several workers publish at different times.
//	copy       A redelivered message that has a dead letter is handled again. If it succeeds, it has an effect and a letter.
//	           A requeue publishes a new message, which has no second effect.
//
// # Key-value buckets
//
//	playbook   <book>.bullet.<id>, <book>.head. The view of a book, written by the Curator. A bullet in the head replaces
//	           the bullet of its key. Most flushes write the head only; the others write keys and head in one atomic batch. A
//	           flush with an outdated head is refused as a whole. DELTAS can restore the view.
//	window     Recent history for prompts, see package window. <book>.<owner>.<session> has the turns of a session, written by
//	           the Generator and the service after they store an execution. <book>._reflections and
//	           <book>.<owner>.<session>.reflections have notes on reflections, written by the Reflector.
//	state      <book>._runs.<owner>.<task>.<label> has the last run at a task, written by the Reflector.
//	           <book>.<owner>.<session>.marks and .summary belong to a session. <book>._first.<part> records the first copy
//	           of each id, so that a later copy adds no second turn, note or run.
//	contexts   <id>. A context that the service built for an outside agent, stored before the reply is sent and read
//	           when the agent reports its execution.
//	vectors    Embeddings of texts, so that each text is embedded once.
//	attempts   <role>.<sequence>. The number of deliveries of a message and how many of them count as attempts, written
//	           by the bus before it naks or holds the message. Without a record each delivery was an attempt. The
//	           server itself does not limit redeliveries.
//
// # Subjects without a stream
//
//	debrief.head.<book>         the Curator announces the version of a new view to followers
//	debrief.health              request for a health report; each process replies, see package liveness
//	debrief.api.<verb>.<book>   requests of outside agents, see package service; with .<owner> requests of the gateway for a token
package events

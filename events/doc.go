// Package events is the wire of Debrief: what the workers tell each other, under which subject and id, and how it is
// written down. It knows playbooks and nothing else: no connection, no clock, no policy. Package bus carries events.
//
// # The hops
//
// Generator, Reflector and Curator meet only here. Per hop: who publishes, how the id is formed, who acks when, and
// what a second delivery does.
//
//	TASKS        ace.task.<book>        by clients, replays and, for another round, the Reflector
//	  id         H(book, the client's task id), and the round where it is not the first; a random task id when the client
//	             gives none
//	  acked by   the Generator, after the Execution is stored (the answer goes to the task's reply subject then)
//	  again      the model is asked again; the Execution has the same id, so the server drops it within two minutes
//	             and the Curator drops what comes of it for ever. The first one stored counts.
//
//	EXECUTIONS   ace.execution.<book>   by the Generator and by outside agents; ace.feedback.<book> by whoever judges
//	  id         H("execution", book, task id, round)
//	  acked by   the Reflector, after the Reflection is stored, or the Task of another round, or at once where there is
//	             nothing to learn from it (purpose evaluate, or a trace without a signal and no bullet on trial). What is
//	             held (Origin.Held) has its Reflection also then; feedback on it teaches nothing.
//	  feedback   waits until its execution is reflected on, so that what moves votes comes after what casts them. The first
//	             on one that taught nothing by itself does not: a key in the window bucket says which is the first.
//	  again      reflected again; the Curator finds the execution or the feedback covered
//
//	REFLECTIONS  ace.reflection.<book>  by the Reflector; ace.edit.<book> by operators
//	  id         H("reflection", execution id, feedback id or nothing, reflector version); an edit's own id
//	  acked by   the Curator, after the Delta that covers it is stored. The ack carries no truth: a Reflection is
//	             covered when the id of its feedback, or else of its sample, is in the log.
//	  again      found covered and acknowledged, under any sequence and of any reflector version.
//	             An edit is done as a whole or refused, and answered either way; one that looks back (a restore, a
//	             forgetting) is worked out against the newest version, and worked out again when that has moved on. So is a
//	             Reflection on feedback: it moves what its execution counts for, after everything of its book that was
//	             stored before it; of several judgements the one of the latest feedback stands.
//	  held       a Reflection of what is held is acked at once and changes nothing: no delta covers it, although the floor
//	             passes it. It takes effect with the Edit that gathers it, in one change that covers the Edit and all that
//	             it gathers, in its order: all of them or, where a handle names none of the book's or a model fails, none.
//	             Both are looked up by their ids like everything else: a second delivery of the Edit finds it covered; a Reflection that another Edit has gathered is left out. A refused one is
//	             covered by nothing, so that it is judged anew each time it comes.
//
//	DELTAS       ace.delta.<book>       by the Curator alone, one at a time per book by compare-and-swap
//	  id         none: the compare-and-swap decides. A change too large for one delta is several in a row that take
//	             effect with the last; cut short by a crash or by another's delta, never.
//	  read by    the Curator to fold, and whoever rebuilds; never acked, never deleted
//	  once       a delta names the executions, feedback and edits that it covers; the Curator looks each event up in an
//	             index of all covered ids before it commits, whether the message is marked as redelivered or not
//	  again      refused by the compare-and-swap; a writer that cannot tell whether it was stored reads the log
//
//	KV playbook  <book>.bullet.<id>, <book>.head   by the Curator: the view, one atomic batch per flush, head last
//	  again      a batch with a stale head is refused whole; the view can always be folded again from DELTAS
//
//	KV window    <book>.<session>, by the Generator and the context service once an execution is stored; <book>._reflections
//	             and <book>.<session>.reflections, by the Reflector once a reflection is; .marks and .summary beside them;
//	             <book>._runs.<task>.<end> the Reflector's own; <book>._first.<part>, which copies came first
//	  id         H("window", book, session, execution); of a note the same with the reflection
//	  acked      before: an answer is sent, and its task acked, when the session's window has it
//	  again      a turn takes no second place, also after it has left the window: window.Store.First reports which
//	             stored copy of an execution was the first. The same holds for notes and runs.
//
//	KV contexts  <id>, by the context service, before the context is answered; read when its execution is reported
//	KV vectors   by whoever had a text embedded, so that nobody pays for it again
//
//	ace.head.<book>         by the Curator after it has written the view: its version, for followers; nothing is stored
//	ace.health              the roll call: whoever runs answers with how its roles do; nothing is stored
//	ace.api.<verb>.<book>   requests of outside agents, answered and not stored: see package service
//
//	DEAD         ace.dead.<role>.<code>.<book>.<id> by the bus of the worker that gives a message up, before it acks it
//	  id         H("dead", role, stream, sequence, message id). Expected-last-subject-sequence 0, over all codes: a message
//	             has one letter, whichever workers store it and whenever
//	  withdrawn  a letter whose message has its effect after all is replaced by an empty message that expires in a second
//	  again      a redelivered message that has a letter is acked and not handled. Requeue publishes a new message.
//
//	KV attempts  <role>.<sequence>, by the bus, before it gives a message back or holds it: the number of deliveries so far,
//	             and how many of them were attempts. Without a record each was one. The server redelivers without limit.
//
// A role publishes what it makes, waits for the server's word that it is stored, and only then acks what it was made
// of. So a crash between any two steps repeats work and loses none.
package events

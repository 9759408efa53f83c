// Package capture assembles the calls that agents make through the gateway into runs. A run is the work on one message of a
// user: one execution. The package keeps open runs in a key-value bucket and reports each of them once.
//
// # Runs
//
// A call that has no work behind its last user item begins a run. A call with work behind it continues an open run of the same owner
// and playbook. The run is found, in this order, by
//
//  1. the calls of tools in the last reply: their ids, names and arguments. Numbered ids, such as "find:0", also need the same
//     question, texts or named session
//  2. the session that the client names, together with the question
//  3. the texts of the conversation: those of the user and the model, without system prompt, reminders and results of tools
//
// If this finds several runs, the one with most in common with the call is chosen. If several are left, the call begins a run, which
// is counted as Ambiguous. Two equal calls are two runs. A repeated call replaces the reply of the first attempt. A run without any
// complete reply is dropped. A call that continues an unknown run begins a run in the middle.
//
// A run closes when the next user item of its conversation arrives, after an idle time, with feedback, or with an explicit outcome. If
// it waits for tools when that item arrives, it stays open for the idle time: the item may belong to a fork of the conversation. A call
// that continues a closed run is not captured, but gets the text of its block, so that the provider's prompt cache stays valid.
//
// # The walk of a call
//
//	capture.go     Call, Store           what the caller gives; what a gateway keeps
//	place.go       locate                where the call stands in its conversation
//	keys.go        keys, textChain       what identifies a conversation, a reply and an id
//	open.go        Begin, find           the run of the call:
//	continue.go    findContinued           the one that it continues
//	turn.go        findRepeated, newRun    the one whose first call it repeats, or a new one in the session of the turn before
//	lookup.go      lookup, runs          the runs behind keys
//	blocks.go      setBlocks             the blocks to insert into the call
//	open.go        Start, storeBeginning store the beginning while the model works: the context of its block, the run, the references to it
//	update.go      update                change a stored run
//	references.go  putReferences         store references
//	release.go     Hold, awaitBegin      how long the client waits for a slow server
//	open.go        Finish, storeEnd      store the end: the part of the call, the references to its reply
//	part.go        newPart               what the call adds to its run
//	pending.go     Poll                  the end of a call whose model works in the background
//
// A run has these files:
//
//	run.go         run, attempt          the stored state
//	close.go       Run, sweep, reportRun the end of a run
//	report.go      newReport             the execution
//	infer.go       infer                 its outcome, if nobody gave one
//	feedback.go    Feedback              an outcome by an id that a client knows
//
// Below them are bucket.go (values of a bucket), recent.go (values that this process has written) and quota.go (how many runs are open).
//
// # Storage
//
// Any number of gateways share the buckets, and each may die at any time. The first bucket has the open runs. It refuses new ones at
// its limit, and an owner has a quota of it. These are the keys:
//
//	o.<run>                  an open run: its calls, the first small replies; changed by compare-and-swap
//	b.<run>                  its block, which never changes
//	c.<run>.<call>.<attempt> the tool results and the reply of another call
//	r.<hash>.<owner>.<token> references to open runs of an owner: by first texts, named session and question, reply
//
// Keys with t. are those of package otlp: spans of traces that are not complete.
//
// The second bucket has the closed runs:
//
//	d.<run>                  a closed run with its block and its handle, for the age limit of the bucket
//	r.<hash>.<owner>.<token> references by first texts and last reply, for two days; by response, session, turn and trace, as long as closed runs
//
// Each change is safe with one key at a time. A call stores its parts before it is marked as complete in the run. To close a run, a
// gateway marks it, reports it, stores the closed run and deletes the open one: see close.go. Another gateway repeats these steps if
// the first one dies. The report has the id of the run, so repeated reports are one execution.
//
// Secrets in texts are redacted before they are stored, except in blocks, which must stay equal byte for byte.
package capture

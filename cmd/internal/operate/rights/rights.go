// Package rights lists the rights of each user of a NATS server, and writes the server's configuration from that list.
//
// A tenant has one account for its streams, buckets and operator, and one account for each role and for outside agents.
// A role's account imports the subjects of its list from the stream account as services. It imports nothing else. This
// closes a hole of user permissions: the server publishes the answer of a JetStream request to the request's reply subject
// without checking the requester's rights. So a user could name any subject as the reply subject, and by the answer write to,
// purge or delete any stream. Across a service import the server replaces the reply subject, and the answer returns to the
// requester's own account.
//
// The list is applied twice: as imports, which close the hole, and as user permissions, with which a missing right is an
// error that names the subject.
//
// Rules for an entry of the list:
//
//   - Only the operator may create consumers. The server delivers to a push consumer's deliver_subject without checking
//     the rights of its creator. Roles use the durables that 'debrief setup' creates, and direct gets.
//   - An acknowledgement is a publish: each role may acknowledge for its own durable only.
//   - Each user has its own inbox prefix. Programs of Debrief set it; other clients must (nats --inbox-prefix).
//   - Clients (through the gateway) and operators submit tasks on debrief.task.<book>, or debrief.task.<book>.<owner>. A Reflector
//     submits the next round of a task on debrief.round. A task on debrief.task with earlier rounds becomes a dead letter, so only a
//     Reflector can write the advice and the votes of a round. The gateway has the right to debrief.round only to requeue dead
//     letters, and its API takes no earlier rounds from clients.
//   - A subject that several messages answer must be in severalAnswers.
//
// Limits of the list: all agents of a tenant are one user and can read each other's answers. Roles of a tenant can read
// all of its dead letters. A user with the right to a bucket may write all of its keys. The operator is a user of the
// stream account, so the server does not replace its reply subjects, and it may create push consumers. Its denied subjects
// prevent mistakes, not attacks: the operator's key can forge and delete everything of its tenant and must be guarded.
package rights

import (
	"strings"

	"debrief/events"
)

// Grant lets a user publish to a subject, or subscribe to it.
type Grant struct {
	Subject string
	Why     string
	// Accounts are the users whose accounts receive the messages. Nil is the operator, whose account has the streams. Empty is
	// the user's own account only.
	Accounts []string
}

// User is a user of each tenant with its rights. The server refuses everything else.
type User struct {
	Name      string
	Publish   []Grant
	Deny      []string // exceptions of Publish
	Subscribe []Grant
}

// programs are the users that answer health requests.
var programs = []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator, events.UserGateway}

// Users returns the users of a tenant.
func Users() []User {
	return []User{generator, reflector, curator, gateway, operator, agent}
}

// Grants of several users.
var (
	health  = Grant{Subject: events.SubjectHealth, Why: "health requests"}
	answers = Grant{Subject: "_R_.>", Why: "answers to requests of other accounts", Accounts: []string{}}
	replies = Grant{Subject: "_INBOX_operator.>", Why: "answers to tasks and edits, whose header names the inbox"}
	blobs   = Grant{Subject: "$O.blobs.>", Why: "payloads too large for a message"}
	headOf  = Grant{Subject: "debrief.head.*", Why: "a playbook has a new version"}

	repliesToGateway = Grant{
		Subject: "_INBOX_gateway.>", Why: "answers to tasks and edits, whose header names the inbox", Accounts: []string{events.UserGateway},
	}
)

var generator = User{
	Name: events.RoleGenerator,
	Publish: []Grant{
		{Subject: "debrief.execution.*", Why: "its results, and executions that agents report to its service"},
		{Subject: "debrief.feedback.*", Why: "feedback that agents report to its service"},
		{Subject: "debrief.dead.generator.*.*.*", Why: "its dead letters"},
		{Subject: "$KV.attempts.generator.>", Why: "its deliveries that were no attempts"},
		answers,
		replies,
		repliesToGateway,
		{Subject: "$KV.window.>", Why: "turns of sessions"},
		{Subject: "$KV.state.>", Why: "summaries of sessions, the first copies of executions"},
		{Subject: "$KV.contexts.>", Why: "contexts that agents were served"},
		{Subject: "$KV.vectors.>", Why: "embeddings"},
		blobs,

		{Subject: "$JS.API.CONSUMER.INFO.TASKS.generator", Why: "its durable: position"},
		{Subject: "$JS.API.CONSUMER.MSG.NEXT.TASKS.generator", Why: "its durable: deliveries"},
		{Subject: "$JS.ACK.TASKS.generator.>", Why: "its durable: acknowledgements"},

		{Subject: "$JS.API.INFO", Why: "metrics: use of the store"},
		{Subject: "$JS.API.STREAM.INFO.TASKS", Why: "health: backlog"},
		{Subject: "$JS.API.STREAM.INFO.EXECUTIONS", Why: "health: its results"},
		{Subject: "$JS.API.STREAM.INFO.DEAD", Why: "health: dead letters"},
		{Subject: "$JS.API.STREAM.INFO.KV_attempts", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_playbook", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_window", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_state", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_contexts", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_vectors", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.OBJ_blobs", Why: "start: does it exist"},

		{Subject: "$JS.API.DIRECT.GET.DEAD", Why: "which of its messages have a dead letter"},
		{Subject: "$JS.API.DIRECT.GET.KV_attempts", Why: "which deliveries were no attempts"},
		{Subject: "$JS.API.DIRECT.GET.TASKS", Why: "health: the oldest task"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "recall, sessions, feedback"},
		{Subject: "$JS.API.DIRECT.GET.DELTAS", Why: "earlier versions of a playbook"},
		{Subject: "$JS.API.DIRECT.GET.DELTAS.>", Why: "earlier versions of a playbook"},
		{Subject: "$JS.API.DIRECT.GET.KV_playbook", Why: "the playbook"},
		{Subject: "$JS.API.DIRECT.GET.KV_playbook.>", Why: "heads and bullets"},
		{Subject: "$JS.API.DIRECT.GET.KV_window", Why: "turns of sessions"},
		{Subject: "$JS.API.DIRECT.GET.KV_window.>", Why: "turns of sessions"},
		{Subject: "$JS.API.DIRECT.GET.KV_state.>", Why: "marks and summaries of sessions, first copies"},
		{Subject: "$JS.API.DIRECT.GET.KV_contexts", Why: "served contexts"},
		{Subject: "$JS.API.DIRECT.GET.KV_contexts.>", Why: "served contexts"},
		{Subject: "$JS.API.DIRECT.GET.KV_vectors", Why: "embeddings"},
		{Subject: "$JS.API.DIRECT.GET.KV_vectors.>", Why: "embeddings"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs", Why: "large payloads"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs.>", Why: "large payloads"},
	},
	Subscribe: []Grant{
		inbox(events.RoleGenerator),
		health,
		{Subject: "debrief.api.*.*", Why: "its service for agents"},
		{Subject: "debrief.api.*.*.*", Why: "its service for the owners of tokens"},
		{Subject: "$SRV.>", Why: "discovery of its service"},
		headOf,
	},
}

var reflector = User{
	Name: events.RoleReflector,
	Publish: []Grant{
		{Subject: "debrief.reflection.*", Why: "its results"},
		{Subject: "debrief.round.*.*", Why: "another round of a task"},
		{Subject: "debrief.dead.reflector.*.*.*", Why: "its dead letters"},
		{Subject: "$KV.attempts.reflector.>", Why: "its deliveries that were no attempts"},
		answers,
		replies,
		repliesToGateway,
		{Subject: "$KV.window.>", Why: "notes of sessions and books"},
		{Subject: "$KV.state.>", Why: "runs of a task, the first feedback"},
		blobs,

		{Subject: "$JS.API.CONSUMER.INFO.EXECUTIONS.reflector", Why: "its durable: position"},
		{Subject: "$JS.API.CONSUMER.MSG.NEXT.EXECUTIONS.reflector", Why: "its durable: deliveries"},
		{Subject: "$JS.ACK.EXECUTIONS.reflector.>", Why: "its durable: acknowledgements"},

		{Subject: "$JS.API.INFO", Why: "metrics: use of the store"},
		{Subject: "$JS.API.STREAM.INFO.TASKS", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.EXECUTIONS", Why: "health: backlog"},
		{Subject: "$JS.API.STREAM.INFO.REFLECTIONS", Why: "health: its results"},
		{Subject: "$JS.API.STREAM.INFO.DEAD", Why: "health: dead letters"},
		{Subject: "$JS.API.STREAM.INFO.KV_attempts", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_window", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_state", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.OBJ_blobs", Why: "start: does it exist"},

		{Subject: "$JS.API.DIRECT.GET.DEAD", Why: "which of its messages have a dead letter"},
		{Subject: "$JS.API.DIRECT.GET.KV_attempts", Why: "which deliveries were no attempts"},
		{Subject: "$JS.API.DIRECT.GET.TASKS", Why: "whether a round is stored"},
		{Subject: "$JS.API.DIRECT.GET.REFLECTIONS", Why: "whether a reflection is stored"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "the execution of a feedback; health: the oldest"},
		{Subject: "$JS.API.DIRECT.GET.KV_window", Why: "notes"},
		{Subject: "$JS.API.DIRECT.GET.KV_window.>", Why: "notes"},
		{Subject: "$JS.API.DIRECT.GET.KV_state.>", Why: "runs, first copies"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs", Why: "large payloads"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs.>", Why: "large payloads"},
	},
	Subscribe: []Grant{inbox(events.RoleReflector), health},
}

var curator = User{
	Name: events.RoleCurator,
	Publish: []Grant{
		{Subject: "debrief.delta.*", Why: "the log of each playbook; no other user has this right"},
		{Subject: "$KV.playbook.>", Why: "the view of the log; no other user has this right"},
		{Subject: headOf.Subject, Why: headOf.Why, Accounts: []string{events.RoleGenerator, events.UserGateway, events.UserOperator}},
		{Subject: "debrief.dead.curator.*.*.*", Why: "its dead letters"},
		{Subject: "$KV.attempts.curator.>", Why: "its deliveries that were no attempts"},
		answers,
		replies,
		repliesToGateway,
		blobs,

		{Subject: "$JS.API.CONSUMER.INFO.REFLECTIONS.curator", Why: "its durable: position, and the floor of a delta"},
		{Subject: "$JS.API.CONSUMER.MSG.NEXT.REFLECTIONS.curator", Why: "its durable: deliveries"},
		{Subject: "$JS.ACK.REFLECTIONS.curator.>", Why: "its durable: acknowledgements"},

		{Subject: "$JS.API.INFO", Why: "metrics: use of the store"},
		{Subject: "$JS.API.STREAM.INFO.REFLECTIONS", Why: "health: backlog"},
		{Subject: "$JS.API.STREAM.INFO.EXECUTIONS", Why: "the newest execution when some are forgotten"},
		{Subject: "$JS.API.STREAM.INFO.DELTAS", Why: "names of books; health: its results"},
		{Subject: "$JS.API.STREAM.INFO.DEAD", Why: "health: dead letters"},
		{Subject: "$JS.API.STREAM.INFO.KV_attempts", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_playbook", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.OBJ_blobs", Why: "start: does it exist"},

		{Subject: "$JS.API.DIRECT.GET.DEAD", Why: "which of its messages have a dead letter"},
		{Subject: "$JS.API.DIRECT.GET.KV_attempts", Why: "which deliveries were no attempts"},
		{Subject: "$JS.API.DIRECT.GET.REFLECTIONS", Why: "reflections that an edit covers; health: the oldest"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "the rounds of an execution to forget"},
		{Subject: "$JS.API.DIRECT.GET.DELTAS", Why: "the log"},
		{Subject: "$JS.API.DIRECT.GET.DELTAS.>", Why: "the log"},
		{Subject: "$JS.API.STREAM.MSG.GET.DELTAS", Why: "the end of the log, from its leader"},
		{Subject: "$JS.API.DIRECT.GET.KV_playbook", Why: "the view"},
		{Subject: "$JS.API.DIRECT.GET.KV_playbook.>", Why: "the view"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs", Why: "large payloads"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs.>", Why: "large payloads"},
	},
	Subscribe: []Grant{inbox(events.RoleCurator), health},
}

// gateway is the user of the HTTP server for agents and people. Its API edits playbooks, submits tasks, and requeues and drops dead
// letters for the holders of tokens. It writes no delta. It stores executions, feedback and reflections only to requeue them: it
// reports runs to the service as agents do. Edits, which it may publish under any author, have at least the effect of reflections.
var gateway = User{
	Name: events.UserGateway,
	Publish: []Grant{
		{Subject: "debrief.api.context.*", Why: "context for a model", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.execution.*", Why: "report of an execution", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.feedback.*", Why: "feedback", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.context.*.*", Why: "the same for the owner of a token", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.execution.*.*", Why: "the same for the owner of a token", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.feedback.*.*", Why: "the same for the owner of a token", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.task.*", Why: "API: tasks"},
		{Subject: "debrief.task.*.*", Why: "API: tasks of the owner of a token"},
		{Subject: "debrief.round.*.*", Why: "API: requeue of dead letters"},
		{Subject: "debrief.edit.*", Why: "API: changes of playbooks by people"},
		{Subject: "debrief.execution.*", Why: "API: requeue of dead letters"},
		{Subject: "debrief.feedback.*", Why: "API: requeue of dead letters"},
		{Subject: "debrief.reflection.*", Why: "API: requeue of dead letters"},
		{Subject: "$JS.API.STREAM.MSG.DELETE.DEAD", Why: "API: requeue and drop of dead letters"},
		{Subject: health.Subject, Why: health.Why, Accounts: programs},
		answers,
		ownReport(events.UserGateway),
		{Subject: "$KV.openruns.>", Why: "open runs"},
		{Subject: "$KV.captures.>", Why: "closed runs by their ids"},
		{Subject: "$KV.state.*.*.*.marks", Why: "API: marks of interactions"},
		blobs,

		{Subject: "$JS.API.CONSUMER.INFO.TASKS.generator", Why: "API: status"},
		{Subject: "$JS.API.CONSUMER.INFO.EXECUTIONS.reflector", Why: "API: status"},
		{Subject: "$JS.API.CONSUMER.INFO.REFLECTIONS.curator", Why: "API: status"},
		{Subject: "$JS.API.INFO", Why: "metrics: use of the store"},
		{Subject: "$JS.API.STREAM.INFO.TASKS", Why: "API: status"},
		{Subject: "$JS.API.STREAM.INFO.EXECUTIONS", Why: "API: status and lists"},
		{Subject: "$JS.API.STREAM.INFO.REFLECTIONS", Why: "API: status"},
		{Subject: "$JS.API.STREAM.INFO.DELTAS", Why: "API: names of books"},
		{Subject: "$JS.API.STREAM.INFO.DEAD", Why: "API: dead letters"},
		{Subject: "$JS.API.STREAM.INFO.KV_playbook", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_openruns", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_captures", Why: "start: does it exist"},
		{Subject: "$JS.API.STREAM.INFO.KV_window", Why: "API: sessions"},
		{Subject: "$JS.API.STREAM.INFO.KV_state", Why: "API: sessions"},
		{Subject: "$JS.API.STREAM.INFO.KV_contexts", Why: "API: contexts"},
		{Subject: "$JS.API.STREAM.INFO.KV_runs", Why: "API: runs"},
		{Subject: "$JS.API.STREAM.INFO.KV_vectors", Why: "API: status"},
		{Subject: "$JS.API.STREAM.INFO.KV_attempts", Why: "API: status"},
		{Subject: "$JS.API.STREAM.INFO.OBJ_blobs", Why: "start: does it exist"},

		{Subject: "$JS.API.DIRECT.GET.DEAD", Why: "API: dead letters"},
		{Subject: "$JS.API.DIRECT.GET.TASKS", Why: "API: status"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "API: executions"},
		{Subject: "$JS.API.DIRECT.GET.REFLECTIONS", Why: "API: evidence, results of edits"},
		{Subject: "$JS.API.DIRECT.GET.DELTAS", Why: "API: versions"},
		{Subject: "$JS.API.DIRECT.GET.DELTAS.>", Why: "API: versions"},
		{Subject: "$JS.API.STREAM.MSG.GET.DELTAS", Why: "the end of the log, from its leader"},
		{Subject: "$JS.API.DIRECT.GET.KV_playbook", Why: "the playbook"},
		{Subject: "$JS.API.DIRECT.GET.KV_playbook.>", Why: "heads and bullets"},
		{Subject: "$JS.API.DIRECT.GET.KV_openruns", Why: "open runs"},
		{Subject: "$JS.API.DIRECT.GET.KV_openruns.>", Why: "open runs"},
		{Subject: "$JS.API.DIRECT.GET.KV_captures", Why: "closed runs by their ids"},
		{Subject: "$JS.API.DIRECT.GET.KV_captures.>", Why: "closed runs by their ids"},
		{Subject: "$JS.API.DIRECT.GET.KV_window", Why: "API: sessions"},
		{Subject: "$JS.API.DIRECT.GET.KV_window.>", Why: "API: sessions"},
		{Subject: "$JS.API.DIRECT.GET.KV_state.>", Why: "API: sessions"},
		{Subject: "$JS.API.DIRECT.GET.KV_contexts", Why: "API: contexts"},
		{Subject: "$JS.API.DIRECT.GET.KV_contexts.>", Why: "API: contexts"},
		{Subject: "$JS.API.DIRECT.GET.KV_runs", Why: "API: runs"},
		{Subject: "$JS.API.DIRECT.GET.KV_runs.>", Why: "API: runs"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs", Why: "large payloads"},
		{Subject: "$JS.API.DIRECT.GET.OBJ_blobs.>", Why: "large payloads"},
	},
	Subscribe: []Grant{inbox(events.UserGateway), health, headOf},
}

// operator is the user of the tools for people.
var operator = User{
	Name: events.UserOperator,
	Publish: []Grant{
		{Subject: "debrief.>", Why: "tasks, feedback, edits, executions of recorded runs"},
		{Subject: health.Subject, Why: health.Why, Accounts: programs},
		ownReport(events.UserOperator),
		{Subject: "debrief.api.*.*", Why: "requests to the service", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.*.*.*", Why: "requests to the service for an owner", Accounts: []string{events.RoleGenerator}},
		{Subject: "$SRV.>", Why: "discovery of the service", Accounts: []string{events.RoleGenerator}},
		{Subject: "$KV.>", Why: "marks of sessions, embeddings, progress of runs"},
		blobs,
		{Subject: "$JS.API.>", Why: "streams, consumers, reads"},
		{Subject: "$JS.ACK.>", Why: "acknowledgements of the messages that it consumes"},
		{Subject: "$JS.SNAPSHOT.>", Why: "backups: the server's flow control, and data to restore"},
		{Subject: "$SYS.REQ.USER.INFO", Why: "its own rights"},
	},
	Deny: []string{
		"debrief.delta.>", // the Curator's: edits are requested
		"$KV.playbook.>",
	},
	Subscribe: []Grant{
		inbox(events.UserOperator),
		{Subject: health.Subject, Why: "'debrief up --nats' answers them, too"},
		headOf,
	},
}

// agent is the user of outside agents. It has no right to JetStream, nor to a subject with an owner: all agents on NATS share the
// common owner.
var agent = User{
	Name: events.UserAgent,
	Publish: []Grant{
		{Subject: "debrief.api.context.*", Why: "context for the model", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.execution.*", Why: "report of an execution", Accounts: []string{events.RoleGenerator}},
		{Subject: "debrief.api.feedback.*", Why: "feedback", Accounts: []string{events.RoleGenerator}},
	},
	Subscribe: []Grant{inbox(events.UserAgent)},
}

// ownReport is the right of a user that requests and answers health reports.
func ownReport(user string) Grant {
	return Grant{Subject: events.InboxPrefix(user) + ".>", Why: "its own health report", Accounts: []string{}}
}

func inbox(user string) Grant {
	return Grant{Subject: events.InboxPrefix(user) + ".>", Why: "answers to its requests"}
}

// severalAnswers reports whether a request to a subject may get more than one answer. A direct get of a stream may be a batch. A direct
// get of one subject, which is behind the name of the stream, gets one message.
func severalAnswers(subject string) bool {
	if stream, ok := strings.CutPrefix(subject, "$JS.API.DIRECT.GET."); ok {
		return !strings.Contains(stream, ".")
	}
	return strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.") || subject == health.Subject || subject == "$SRV.>"
}

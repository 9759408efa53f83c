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
	"slices"
	"strings"

	"debrief/events"
)

// Grant lets a user publish to a subject, or subscribe to it.
type Grant struct {
	Subject string
	Why     string
	// Accounts are the users whose accounts receive what is published. Nil is the operator, whose account has the streams. An empty
	// list is the user's own account only. Accounts has no meaning in a grant to subscribe.
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
	// The server answers in every account.
	ownRights = Grant{Subject: SubjectUserInfo, Why: "its own rights", Accounts: []string{}}

	heads = Grant{Subject: "debrief.head.*", Why: "a playbook has a new version"}

	// Curators divide the playbooks among themselves. No other user may write there: a forwarded message is handled like one of the stream.
	peers = []Grant{
		{Subject: "debrief.peers.curator", Why: "which curators run", Accounts: []string{events.RoleCurator}},
		{Subject: "debrief.peers.curator.*", Why: "messages for the curator that has their playbook", Accounts: []string{events.RoleCurator}},
	}

	repliesToGateway = Grant{
		Subject: "_INBOX_gateway.>", Why: "answers to tasks and edits, whose header names the inbox", Accounts: []string{events.UserGateway},
	}
)

// ofRole returns the rights that all roles have: to their durable on the stream input, to dead letters, and for health and metrics.
func ofRole(role, input string) []Grant {
	return slices.Concat([]Grant{
		{Subject: "debrief.dead." + role + ".*.*.*", Why: "its dead letters"},
		{Subject: "$KV.attempts." + role + ".>", Why: "its deliveries that were no attempts"},
		answers,
		replies,
		repliesToGateway,
		blobs,
		ownRights,

		{Subject: "$JS.API.CONSUMER.INFO." + input + "." + role, Why: "its durable: position"},
		{Subject: "$JS.API.CONSUMER.MSG.NEXT." + input + "." + role, Why: "its durable: deliveries"},
		{Subject: "$JS.ACK." + input + "." + role + ".>", Why: "its durable: acknowledgements"},

		{Subject: "$JS.API.INFO", Why: "metrics: use of the store"},
		{Subject: "$JS.API.DIRECT.GET.DEAD", Why: "which of its messages have a dead letter"},
		{Subject: "$JS.API.DIRECT.GET.KV_attempts", Why: "which deliveries were no attempts"},
	},
		info("health: backlog", input), info("health: dead letters", "DEAD"), info("start: does it exist", "KV_attempts", "OBJ_blobs"),
		info("does it exist, or has it no leader", "KV_erasures"),
		read("OBJ_blobs", "large payloads"),
		read("KV_erasures", "tombstones of erased runs"))
}

// info returns the rights to the states of some streams.
func info(why string, streams ...string) (all []Grant) {
	for _, name := range streams {
		all = append(all, Grant{Subject: "$JS.API.STREAM.INFO." + name, Why: why})
	}
	return all
}

// read returns the rights to read messages of a stream by their sequence and by their subject.
func read(stream, why string) []Grant {
	get := "$JS.API.DIRECT.GET." + stream
	return []Grant{{Subject: get, Why: why}, {Subject: get + ".>", Why: why}}
}

// service returns the rights to the requests of agents to a generator. The suffix is ".*", or ".*.*" for the owner of a token.
func service(suffix string) []Grant {
	accounts := []string{events.RoleGenerator}
	return []Grant{
		{Subject: "debrief.api.context" + suffix, Why: "context for a model", Accounts: accounts},
		{Subject: "debrief.api.execution" + suffix, Why: "report of an execution", Accounts: accounts},
		{Subject: "debrief.api.feedback" + suffix, Why: "feedback", Accounts: accounts},
	}
}

var generator = User{
	Name: events.RoleGenerator,
	Publish: slices.Concat([]Grant{
		{Subject: "debrief.execution.*", Why: "its results, and executions that agents report to its service"},
		{Subject: "debrief.feedback.*", Why: "feedback that agents report to its service"},
		{Subject: "$KV.window.>", Why: "turns of sessions"},
		{Subject: "$KV.state.>", Why: "the first copies of executions"},
		{Subject: "$KV.contexts.>", Why: "contexts that agents were served"},
		{Subject: "$KV.vectors.>", Why: "embeddings"},
		{Subject: "$JS.API.DIRECT.GET.TASKS", Why: "health: the oldest task"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "recall, sessions, feedback"},
		{Subject: "$JS.API.DIRECT.GET.KV_state.>", Why: "marks of sessions, first copies"},
	},
		ofRole(events.RoleGenerator, "TASKS"),
		info("health: its results", "EXECUTIONS"),
		info("start: does it exist", "KV_playbook", "KV_window", "KV_state", "KV_contexts", "KV_vectors"),
		read("DELTAS", "earlier versions of a playbook"),
		read("REDACTIONS", "versions whose texts were erased"),
		read("KV_playbook", "the playbook: heads and bullets"),
		read("KV_window", "turns of sessions"),
		read("KV_contexts", "served contexts"),
		read("KV_vectors", "embeddings")),
	Subscribe: []Grant{
		inbox(events.RoleGenerator),
		health,
		{Subject: "debrief.api.*.*", Why: "its service for agents"},
		{Subject: "debrief.api.*.*.*", Why: "its service for the owners of tokens"},
		{Subject: "$SRV.>", Why: "discovery of its service"},
		heads,
	},
}

var reflector = User{
	Name: events.RoleReflector,
	Publish: slices.Concat([]Grant{
		{Subject: "debrief.reflection.*", Why: "its results"},
		{Subject: "debrief.round.*.*", Why: "another round of a task"},
		{Subject: "$KV.window.>", Why: "notes of sessions and books"},
		{Subject: "$KV.state.>", Why: "runs of a task, the first feedback"},
		{Subject: "$JS.API.DIRECT.GET.TASKS", Why: "whether a round is stored"},
		{Subject: "$JS.API.DIRECT.GET.REFLECTIONS", Why: "whether a reflection is stored"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "the execution of a feedback; health: the oldest"},
		{Subject: "$JS.API.DIRECT.GET.KV_state.>", Why: "runs, first copies"},
	},
		ofRole(events.RoleReflector, "EXECUTIONS"),
		info("health: its results", "REFLECTIONS"),
		info("start: does it exist", "TASKS", "KV_window", "KV_state"),
		read("KV_window", "notes"),
		read("KV_playbook", "texts of the bullets in prompts"),
		read("DELTAS", "texts that have changed"),
		read("REDACTIONS", "versions whose texts were erased")),
	Subscribe: []Grant{inbox(events.RoleReflector), health},
}

var curator = User{
	Name: events.RoleCurator,
	Publish: slices.Concat([]Grant{
		{Subject: "debrief.delta.*", Why: "the log of each playbook; no other user has this right"},
		{Subject: "$KV.playbook.>", Why: "the view of the log; no other user has this right"},
		{Subject: heads.Subject, Why: heads.Why, Accounts: []string{events.RoleGenerator, events.UserGateway, events.UserOperator}},
		{Subject: "$JS.API.DIRECT.GET.REFLECTIONS", Why: "reflections that an edit covers; health: the oldest"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "the rounds of an execution to forget"},
		{Subject: "$JS.API.STREAM.MSG.GET.DELTAS", Why: "the end of the log, from its leader"},
		{Subject: "$JS.API.STREAM.PURGE.KV_playbook", Why: "the filler with which erased bytes leave the view"},
	},
		ofRole(events.RoleCurator, "REFLECTIONS"), // the position of its durable is also the floor of a delta
		peers,
		info("the newest execution when some are forgotten", "EXECUTIONS"),
		info("names of books; health: its results", "DELTAS"),
		info("start: does it exist", "KV_playbook", "REDACTIONS"),
		read("DELTAS", "the log"),
		read("REDACTIONS", "versions whose texts were erased"),
		read("KV_playbook", "the view")),
	Subscribe: append([]Grant{inbox(events.RoleCurator), health}, peers...),
}

// gateway is the user of the HTTP server for agents and people. Its API edits playbooks, submits tasks, and requeues and drops dead
// letters for the holders of tokens. It writes no delta. It stores executions, feedback and reflections only to requeue them: it
// reports runs to the service as agents do. Edits, which it may publish under any author, have at least the effect of reflections.
var gateway = User{
	Name: events.UserGateway,
	Publish: slices.Concat([]Grant{
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
		{Subject: "$KV.contexts.>", Why: "contexts of captured runs"},
		{Subject: "$KV.state.*.*.*.marks", Why: "API: marks of interactions"},
		{Subject: "$KV.erasures.>", Why: "API: requests to erase"},
		blobs,

		{Subject: "$JS.API.CONSUMER.INFO.TASKS.generator", Why: "API: status"},
		{Subject: "$JS.API.CONSUMER.INFO.EXECUTIONS.reflector", Why: "API: status"},
		{Subject: "$JS.API.CONSUMER.INFO.REFLECTIONS.curator", Why: "API: status"},
		{Subject: "$JS.API.INFO", Why: "metrics: use of the store"},
		{Subject: "$JS.API.DIRECT.GET.DEAD", Why: "API: dead letters"},
		{Subject: "$JS.API.DIRECT.GET.TASKS", Why: "API: status"},
		{Subject: "$JS.API.DIRECT.GET.EXECUTIONS", Why: "API: executions"},
		{Subject: "$JS.API.DIRECT.GET.REFLECTIONS", Why: "API: evidence, results of edits"},
		{Subject: "$JS.API.STREAM.MSG.GET.DELTAS", Why: "the end of the log, from its leader"},
		{Subject: "$JS.API.DIRECT.GET.KV_state.>", Why: "API: sessions"},
	},
		service(".*"), service(".*.*"),
		info("API: status and lists", "TASKS", "EXECUTIONS", "REFLECTIONS", "DELTAS", "DEAD", "KV_vectors", "KV_attempts", "KV_erasures", "REDACTIONS"),
		info("API: sessions, contexts and runs", "KV_window", "KV_state", "KV_contexts", "KV_runs"),
		info("start: does it exist", "KV_playbook", "KV_openruns", "KV_captures", "OBJ_blobs"),
		read("DELTAS", "API: versions"),
		read("REDACTIONS", "API: versions whose texts were erased"),
		read("KV_playbook", "the playbook: heads and bullets"),
		read("KV_openruns", "open runs"),
		read("KV_captures", "closed runs by their ids"),
		read("KV_window", "API: sessions"),
		read("KV_contexts", "API: contexts"),
		read("KV_runs", "API: runs"),
		read("OBJ_blobs", "large payloads"),
		read("KV_erasures", "tombstones of erased runs")),
	Subscribe: []Grant{inbox(events.UserGateway), health, heads},
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
		ownRights,
	},
	Deny: []string{
		"debrief.delta.>", // the Curator's: edits are requested
		"$KV.playbook.>",
	},
	Subscribe: []Grant{
		inbox(events.UserOperator),
		{Subject: health.Subject, Why: "'debrief up --nats' answers them, too"},
		heads,
	},
}

// agent is the user of outside agents. It has no right to JetStream, nor to a subject with an owner: all agents on NATS share the
// common owner.
var agent = User{
	Name:      events.UserAgent,
	Publish:   service(".*"),
	Subscribe: []Grant{inbox(events.UserAgent)},
}

// ownReport is the right of a user that requests and answers health reports.
func ownReport(user string) Grant {
	return Grant{Subject: events.InboxPrefix(user) + ".>", Why: "its own health report", Accounts: []string{}}
}

func inbox(user string) Grant {
	return Grant{Subject: events.InboxPrefix(user) + ".>", Why: "answers to its requests"}
}

// severalAnswers reports whether a request to a subject may get more than one answer. A direct get may get a batch, unless the subject of a
// message follows the name of the stream: then it gets this one message.
func severalAnswers(subject string) bool {
	if stream, ok := strings.CutPrefix(subject, "$JS.API.DIRECT.GET."); ok {
		return !strings.Contains(stream, ".")
	}
	return strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.") || subject == health.Subject || subject == "$SRV.>"
}

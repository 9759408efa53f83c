package integration

// target is a reply subject of an attacker's request, to which the server then publishes.
type target struct {
	name, kind string
	subject    string // %ROLE% is the ack subject of a role's pending delivery
	body       string // the payload that would cause damage
	state      string // the state that would change
	with       string // another state that would change
}

// targets are the dangerous reply subjects, and one destination of message traces.
var targets = []target{
	{name: "delta", kind: "write", subject: "debrief.delta.forged", state: "stream DELTAS"},
	{name: "head", kind: "write", subject: "$KV.playbook.forged.head", state: "stream KV_playbook"},
	{name: "task", kind: "write", subject: "debrief.task.forged", state: "subject debrief.task.forged", with: "stream TASKS"},
	{name: "exec", kind: "write", subject: "debrief.execution.forged", state: "subject debrief.execution.forged", with: "stream EXECUTIONS"},
	{name: "feedb", kind: "write", subject: "debrief.feedback.forged", state: "subject debrief.feedback.forged", with: "stream EXECUTIONS"},
	{name: "refl", kind: "write", subject: "debrief.reflection.forged", state: "subject debrief.reflection.forged", with: "stream REFLECTIONS"},
	{name: "edit", kind: "write", subject: "debrief.edit.forged", state: "subject debrief.edit.forged", with: "stream REFLECTIONS"},
	{name: "dead", kind: "write", subject: "debrief.dead.generator.error.m.forged", state: "stream DEAD"},
	{name: "windw", kind: "write", subject: "$KV.window.forged", state: "stream KV_window"},
	{name: "state", kind: "write", subject: "$KV.state.forged", state: "stream KV_state"},
	{name: "contx", kind: "write", subject: "$KV.contexts.forged", state: "stream KV_contexts"},
	{name: "vectr", kind: "write", subject: "$KV.vectors.forged", state: "stream KV_vectors"},
	{name: "runs", kind: "write", subject: "$KV.runs.forged", state: "stream KV_runs"},
	{name: "openr", kind: "write", subject: "$KV.openruns.forged", state: "stream KV_openruns"},
	{name: "captr", kind: "write", subject: "$KV.captures.forged", state: "stream KV_captures"},
	{name: "blobs", kind: "write", subject: "$O.blobs.C.forged", state: "stream OBJ_blobs"},

	{
		name: "update", kind: "stream", subject: "$JS.API.STREAM.UPDATE.VUPDATE", state: "stream VUPDATE",
		body: `{"name":"VUPDATE","subjects":["$KV.VUPDATE.>","debrief.new.>"],"storage":"memory","allow_direct":true,"num_replicas":1,"retention":"limits"}`,
	},
	{
		name: "create", kind: "stream", subject: "$JS.API.STREAM.CREATE." + createdStream, state: "stream " + createdStream,
		body: `{"name":"` + createdStream + `","subjects":["$KV.` + createdStream + `.>"],"storage":"memory","retention":"limits"}`,
	},
	{name: "msgdel", kind: "stream", subject: "$JS.API.STREAM.MSG.DELETE.VMSG", state: "stream VMSG", body: `{"seq":1}`},
	{name: "purge", kind: "stream", subject: "$JS.API.STREAM.PURGE.VPURGE", state: "stream VPURGE"},
	{name: "delete", kind: "stream", subject: "$JS.API.STREAM.DELETE.VDELETE", state: "stream VDELETE"},
	{
		name: "push", kind: "consumer", subject: "$JS.API.CONSUMER.CREATE.VCONSUMER." + createdConsumer, state: "consumer VCONSUMER/" + createdConsumer, with: "stream VCONSUMER",
		body: `{"stream_name":"VCONSUMER","config":{"name":"` + createdConsumer + `","deliver_subject":"_INBOX_none.forged","ack_policy":"none"}}`,
	},
	{
		name: "durbl", kind: "consumer", subject: "$JS.API.CONSUMER.DURABLE.CREATE.VCONSUMER.durable", state: "consumer VCONSUMER/durable", with: "stream VCONSUMER",
		body: `{"stream_name":"VCONSUMER","config":{"durable_name":"durable","ack_policy":"explicit"}}`,
	},
	{
		name: "pause", kind: "consumer", subject: "$JS.API.CONSUMER.PAUSE.VCONSUMER.paused", state: "consumer VCONSUMER/paused",
		body: `{"pause_until":"2099-01-01T00:00:00Z"}`,
	},
	{name: "condel", kind: "consumer", subject: "$JS.API.CONSUMER.DELETE.VCONSUMER.victim", state: "consumer VCONSUMER/victim", with: "stream VCONSUMER"},

	{name: "ackG", kind: "ack", subject: "%generator%", state: "consumer TASKS/generator"},
	{name: "ackR", kind: "ack", subject: "%reflector%", state: "consumer EXECUTIONS/reflector"},
	{name: "ackC", kind: "ack", subject: "%curator%", state: "consumer REFLECTIONS/curator"},

	{name: "inG", kind: "inbox", subject: "_INBOX_generator.forged.x", state: "inbox generator"},
	{name: "inR", kind: "inbox", subject: "_INBOX_reflector.forged.x", state: "inbox reflector"},
	{name: "inC", kind: "inbox", subject: "_INBOX_curator.forged.x", state: "inbox curator"},
	{name: "inO", kind: "inbox", subject: "_INBOX_operator.forged.x", state: "inbox operator"},
	{name: "inA", kind: "inbox", subject: "_INBOX_agent.forged.x", state: "inbox agent"},
	{name: "annou", kind: "announcement", subject: "debrief.head.forged", state: "announcement"},

	{name: "trace", kind: "trace", subject: "$KV.VTRACE.forged", state: "stream VTRACE"},
}

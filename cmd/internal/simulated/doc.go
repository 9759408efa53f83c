// Package simulated replaces a language model, so that the whole learning loop runs, and can be measured, without one.
// It is a server with the APIs chat completions, responses and messages that answers the prompts of all roles. The model's name in
// every reply states that it is simulated.
//
// # The task
//
// The tasks are those of the world invoice: invoices of a company, whose amounts depend on hidden house rules. The model
// is a worlds.Model without errors. It knows the steps of an invoice, but no rule: a rule reaches it only in a prompt. As
// generator it adds up without mistakes and applies the bullets of the prompt, also those with wrong numbers. As reflector
// it derives a rule from one expected amount. As curator it adds missing rules and corrects wrong ones. It understands the
// wordings of rules that it writes itself, with any number, and no other ones.
//
// The model therefore learns only through the playbook. Removing a bullet, or changing its number, changes exactly the
// answers that use it.
//
// Each reply is a function of the prompt and of Options. It depends on no counter, clock or order of calls. Injected
// faults also depend on the header X-Stainless-Retry-Count, so that a retry can succeed.
//
// A client that is no role gets an introduction. If its request forces a tool call, or its message names a tool in backquotes, it gets the
// call, and after the result a text that repeats the result (tools.go). So any client of these APIs can try its tool loop.
//
// # The provider
//
// A Provider serves the APIs with the answers of a script: texts, tool calls, errors, and cut or slow streams. The model answers with it,
// and tests of the gateway use it as a provider. It shares no parser with the gateway.
//
// # Limits
//
// The package does not measure how well language models learn, and its mistakes are simpler than theirs. It only shows
// that the workers around a model preserve and apply the insights of the model.
//
// Debrief never uses this model unless the user names it, and every page and command calls its results simulated.
//
// # The walk of a reply
//
//	server.go                   Handler   the routes
//	provider.go                 answer    the request and the reply in the form of one of the three APIs
//	server.go                   reply     the answer, or a fault of faults.go
//	prompt.go                   role      the role that sent the prompt
//	prompt.go                   draw      pseudo-random numbers that depend only on the prompt and the seed
//	simulated.go                answer    the reply of the world's model, with the errors that Options add
//	worlds/roles.go             Reply     the replies of the three roles in all worlds
//	worlds/prompt.go                      bullets, task and reflections as a model reads them
//	worlds/invoice/language.go  NewModel  the knowledge of the model about invoices
package simulated

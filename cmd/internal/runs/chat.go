package runs

import (
	"cmp"
	"time"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
)

// chatLog parses a recorded conversation of a chat API: an example for fine-tuning, or a request with its response. It may have an
// outcome and the name of its task, also in its metadata.
func chatLog(v *record) ([]*steps.Run, error) {
	request, response := v.Want('{', "request"), v.Want('{', "response")
	c := steps.Conversation{}
	container := request // the object with the system prompt, the tools and the messages
	if v.Want('[', "messages").Len() > 0 {
		container = v.Value
	}
	c.AddSystemPrompt(container.Get("system").Content(modelapi.RoleSystem).Text)
	c.SetTools(container.First("tools", "functions").Tools())
	c.AddItems(container.WantMessages("messages"))
	addReply(&c, v.Value, response)
	c.ParseTextActions()
	metadata := v.Get("metadata")
	c.ReadOutcome(sourceOpenAIChat, v.leadingScore, v.Value, metadata)
	c.Name = source.Printable(cmp.Or(v.TextOrNumber("id"), metadata.TextOrNumber("id"), response.TextOrNumber("id")))
	c.Task = source.Printable(cmp.Or(v.TextOrNumber("task_id"), metadata.TextOrNumber("task_id")))
	c.Model = cmp.Or(response.Text("model"), v.Text("model"), request.Text("model"))
	c.Usage = steps.Usage(0, v.Get("usage"), 0).Add(steps.Usage(0, response.Get("usage"), 0)) // 0 calls, because the conversation may have had several
	return c.End()
}

// addReply adds the reply in a log. Of several choices it adds the first one, with which the conversation continued. The reply of
// Anthropic's API has its content in the response itself.
func addReply(c *steps.Conversation, v, response modelapi.Value) {
	for _, choices := range []modelapi.Value{response.Want('[', "choices"), v.Want('[', "choices")} {
		if choices.Len() > 0 {
			message := choices.FirstElement().Get("message")
			message.WantMessage()
			c.AddItems(message.Messages(""))
			return
		}
	}
	reply := response.WantContent("content").Content(modelapi.RoleAssistant)
	c.AddItem(&reply, time.Time{})
}

// responsesLog parses a request and a response of OpenAI's Responses API: in the fields input and output of one object, or in
// the objects request and response.
func responsesLog(v *record) ([]*steps.Run, error) {
	request, response := responsesParts(v.Value)
	c := steps.Conversation{}
	c.AddSystemPrompt(request.Get("instructions").Content(modelapi.RoleSystem).Text)
	c.SetTools(request.Get("tools").Tools())
	c.AddItems(request.Get("input").Messages("user"))
	c.AddItems(response.Get("output").Messages("assistant"))
	c.ReadOutcome(sourceResponses, v.leadingScore, v.Value)
	c.Usage = steps.Usage(1, response.Get("usage"), 0) // one request is one call
	c.Model = response.Text("model")
	c.Name = source.Printable(cmp.Or(v.TextOrNumber("id"), response.TextOrNumber("id")))
	return c.End()
}

// responsesParts returns the request and the response of a log. Without an object for one of them, it is the log itself.
func responsesParts(v modelapi.Value) (request, response modelapi.Value) {
	request, response = v, v
	if inner := v.Get("request"); inner.Kind() == '{' {
		request = inner
	}
	if inner := v.Get("response"); inner.Kind() == '{' {
		response = inner
	}
	return request, response
}

// isResponsesLog reports whether an object has a list of output items, and an input or the type of a response.
func isResponsesLog(v modelapi.Value) bool {
	_, response := responsesParts(v)
	hasItems := response.Get("output").FirstElement().Text("type") != ""
	return hasItems && (v.HasAny("input", "request") || response.Text("object") == "response")
}

// chatMessages builds a run from objects that are single messages or items.
type chatMessages struct{ steps.Conversation }

func (c *chatMessages) Add(v modelapi.Value, _ string) { c.AddItems(v.Messages("")) }

func (c *chatMessages) End() ([]*steps.Run, error) {
	c.ParseTextActions()
	c.Question = miniTask(c.Question) // mini-SWE-agent also writes its messages alone
	return c.Conversation.End()
}

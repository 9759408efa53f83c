package traces

import (
	"encoding/json"

	"debrief/cmd/internal/modelapi"
	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
)

// responsesLog parses a request and a response of OpenAI's Responses API: in the fields input and output of one object, or in
// the objects request and response.
func responsesLog(o *source.Object) ([]*steps.Run, error) {
	request, response := o, o
	if r := o.Child("request"); r != nil {
		request = r
	}
	if r := o.Child("response"); r != nil {
		response = r
	}
	c := steps.Conversation{}
	if system := request.First("instructions"); system != nil {
		c.Omit(source.SystemPrompts, 1)
	}
	c.AddItems(modelapi.Find(request.Get("input"), "user"))
	c.AddItems(modelapi.Find(response.Get("output"), "assistant"))
	r, err := c.Run()
	if err != nil {
		return nil, err
	}
	return finishLog(r, o, response)
}

// isResponsesLog reports whether an object has a list of output items.
func isResponsesLog(o *source.Object) bool {
	response := o
	if r := o.Child("response"); r != nil {
		response = r
	}
	list := source.AsList(response.Get("output"))
	if len(list) == 0 {
		return false
	}
	first := source.AsObject(list[0])
	return first != nil && first.Text("type") != "" && (o.HasAny("input", "request") || response.Text("object") == "response")
}

// finishLog adds id, model, usage and outcome of a request log.
func finishLog(r *steps.Run, o, response *source.Object) ([]*steps.Run, error) {
	var about struct {
		steps.RecordedOutcome
	}
	if err := source.Decode(o.Raw, &about); err != nil {
		return nil, err
	}
	var err error
	if r.Outcome, err = about.ParseOutcome(sourceResponses); err != nil {
		return nil, err
	}
	var u modelapi.Usage
	_ = json.Unmarshal(response.Get("usage"), &u)
	r.Usage = steps.Tokens(u)
	r.Usage.Calls = 1
	r.Model = response.Text("model")
	for _, id := range []json.RawMessage{o.Get("id"), response.Get("id")} {
		if name, err := source.ParseID("id", id); err == nil {
			r.Name = name
			break
		}
	}
	return []*steps.Run{r}, nil
}

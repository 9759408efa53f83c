package proxy

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/cmd/internal/runs/modelapi"
)

func TestFailureHasTheShapeOfTheProvider(t *testing.T) {
	t.Parallel()
	const message = `debrief gateway: no "route"`
	for name, tt := range map[string]struct {
		provider Provider
		api      modelapi.API
		status   int
		want     string
	}{
		"chat, server":      {OpenAI, modelapi.Chat, 502, `{"error":{"message":"debrief gateway: no \"route\"","type":"server_error","param":null,"code":"upstream_unreachable"}}`},
		"responses, client": {OpenAI, modelapi.Responses, 401, `{"error":{"message":"debrief gateway: no \"route\"","type":"invalid_request_error","param":null,"code":"upstream_unreachable"}}`},
		"other path":        {"", "", 429, `{"error":{"message":"debrief gateway: no \"route\"","type":"rate_limit_error","param":null,"code":"upstream_unreachable"}}`},
		"messages, server":  {Anthropic, modelapi.Messages, 502, `{"type":"error","error":{"type":"api_error","message":"debrief gateway: no \"route\""}}`},
		"messages, token":   {Anthropic, modelapi.Messages, 401, `{"type":"error","error":{"type":"authentication_error","message":"debrief gateway: no \"route\""}}`},
		"messages, client":  {Anthropic, modelapi.Messages, 421, `{"type":"error","error":{"type":"invalid_request_error","message":"debrief gateway: no \"route\""}}`},
	} {
		var got, want any
		body := newFailure(tt.status, "upstream_unreachable", `no "route"`).body(tt.provider)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		c := modelapi.NewCollector(tt.api, "")
		_, _ = c.Write(body)
		if reply := c.Reply(); reply.Finish != modelapi.FinishFailed || reply.Error != message {
			t.Errorf("%s: read back as %+v", name, reply)
		}
	}
}

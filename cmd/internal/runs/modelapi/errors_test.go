package modelapi

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestErrorBody(t *testing.T) {
	t.Parallel()
	const code, message = "upstream_unreachable", `no "route"`
	for name, tt := range map[string]struct {
		api    API
		status int
		want   string
	}{
		"chat, server":      {Chat, 502, `{"error":{"message":"no \"route\"","type":"server_error","param":null,"code":"upstream_unreachable"}}`},
		"responses, client": {Responses, 401, `{"error":{"message":"no \"route\"","type":"invalid_request_error","param":null,"code":"upstream_unreachable"}}`},
		"other path":        {"", 429, `{"error":{"message":"no \"route\"","type":"rate_limit_error","param":null,"code":"upstream_unreachable"}}`},
		"messages, server":  {Messages, 502, `{"type":"error","error":{"type":"api_error","message":"no \"route\""}}`},
		"messages, token":   {Messages, 401, `{"type":"error","error":{"type":"authentication_error","message":"no \"route\""}}`},
		"messages, client":  {Messages, 421, `{"type":"error","error":{"type":"invalid_request_error","message":"no \"route\""}}`},
	} {
		var got, want any
		body := ErrorBody(tt.api, tt.status, code, message)
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := json.Unmarshal([]byte(tt.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if reply := collect(tt.api, "", body); reply.Finish != FinishFailed || reply.Error != message {
			t.Errorf("%s: read back as %+v", name, reply)
		}
	}
}

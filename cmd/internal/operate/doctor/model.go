package doctor

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/cmd/internal/program/term"
	"debrief/events/chat"
	"debrief/generator"
)

// ModelFix is the advice for a model that does not respond.
const ModelFix = "check --model, --base-url and the key (OPENAI_API_KEY) against the error above"

// RoleModel is the model of a role. Without a name no model is set. A non-nil Err means that its client could not be created.
type RoleModel struct {
	Role, Name string
	Model      chat.Model
	Err        error
}

// Models checks each model once, also if several roles use it.
func (x *Report) Models(ctx context.Context, all []RoleModel) {
	if !slices.ContainsFunc(all, func(m RoleModel) bool { return m.Name != "" }) {
		x.Add("model", OK, "", "not checked: set one with --model")
	}
	checked := map[string]bool{}
	for _, m := range all {
		switch {
		case m.Name == "":
		case m.Err != nil:
			x.Add("model", Fail, ModelFix, "%v", m.Err)
		case !checked[m.Name]:
			checked[m.Name] = true
			x.Model(ctx, m.Role, m.Name, m.Model)
		}
	}
}

// Model requests one token from a model. role is the name of the prompt.
func (x *Report) Model(ctx context.Context, role, name string, m chat.Model) {
	began := time.Now()
	r, err := m.Complete(ctx, chat.Prompt{Name: role, MaxTokens: 1, Messages: []chat.Message{{Speaker: chat.User, Text: "Say ok."}}})
	if err != nil {
		x.Add("model", Fail, ModelFix, "%s: %s", term.Line(name), term.Line(err.Error()))
		return
	}
	cost := ""
	if r.Usage.Cost > 0 {
		cost = fmt.Sprintf(", %.6f dollars", r.Usage.Cost)
	}
	x.Add("model", OK, "", "%s replies in %s, for %d tokens%s", term.Line(name), time.Since(began).Round(time.Millisecond), r.Usage.Tokens(), cost)
}

// Embedder requests one vector from an embedder. A non-nil err means that the embedder could not be created.
func (x *Report) Embedder(ctx context.Context, name string, e generator.Embedder, err error) {
	var vectors [][]float32
	if err == nil {
		vectors, err = e.Embed(ctx, []string{"ok"})
	}
	if err != nil {
		x.Add("embedder", Fail, "check --embed-model, --embed-base-url and --embed-api-key; without an embedder, texts are searched by words", "%s", term.Line(err.Error()))
		return
	}
	x.Add("embedder", OK, "", "%s returns vectors with %d dimensions", term.Line(name), len(vectors[0]))
}

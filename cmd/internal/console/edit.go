package console

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"debrief/cmd/internal/api"
)

// object is a JSON object in the body of a request to the API.
type object map[string]any

// field returns a field of the form, without spaces around it.
func (q *request) field(name string) string {
	return strings.TrimSpace(strings.ReplaceAll(q.PostForm.Get(name), "\r\n", "\n"))
}

// key returns an idempotency key for a step of an action, so that a form that is sent twice has no further effect. It is "" if the form
// has no key.
func (q *request) key(step string) string {
	if k := q.field("key"); k != "" {
		return k + "-" + step
	}
	return ""
}

// edit sends an edit of the playbook in the path.
func (q *request) edit(body object) (api.EditReply, error) {
	var out api.EditReply
	err := q.post(api.Path("books", q.book, "edits"), q.key("edit"), body, &out)
	return out, err
}

// saved returns the notice of a change of the playbook.
func (q *request) saved(text string, version uint64) notice {
	return notice{Text: fmt.Sprintf("%s Version %d.", text, version), Link: api.Path("books", q.book, "versions", fmt.Sprint(version))}
}

func addBullet(q *request) (notice, error) {
	out, err := q.edit(object{"add": []object{{"content": q.field("content"), "when": q.field("when"), "section": q.field("section")}}, "reason": q.field("reason")})
	if err != nil {
		return notice{}, err
	}
	n := q.saved("Added.", out.Version)
	if len(out.Added) == 1 {
		n.To = api.Path("books", q.book, "bullets", string(out.Added[0]))
	}
	return n, nil
}

// errNoText is the error of an edit whose text has only spaces. The API would keep the text of the bullet.
var errNoText = &api.Error{Problem: api.Problem{Status: http.StatusBadRequest, Code: api.CodeInvalid, Field: "content", Detail: "The text of the bullet is required."}}

// condition returns the condition in a form. An empty condition in the form removes the condition of the bullet.
func (q *request) condition() string { return cmp.Or(q.field("when"), "always") }

// bulletChanges has the notice of each change of a bullet that needs no further fields.
var bulletChanges = map[string]string{
	"pin":      "Pinned.",
	"unpin":    "Unpinned.",
	"retire":   "Retired: it is no longer shown.",
	"activate": "It is shown again.",
	"remove":   "Removed.",
}

func changeBullet(q *request) (notice, error) {
	change := q.PathValue("change")
	if change == "edit" {
		return editBullet(q)
	}
	done := bulletChanges[change]
	if done == "" {
		return notice{}, newError(http.StatusNotFound, api.CodeNotFound, "There is no such change.")
	}
	out, err := q.edit(object{change: []string{q.PathValue("id")}, "reason": q.field("reason")})
	return q.saved(done, out.Version), err
}

// editBullet changes the text, the condition and the section of a bullet. The field read is the version that the person saw in the form: if the
// bullet has changed since, the edit is refused.
func editBullet(q *request) (notice, error) {
	if q.field("content") == "" {
		return notice{}, errNoText
	}
	bullet := object{"id": q.PathValue("id"), "content": q.field("content"), "when": q.condition(), "section": q.field("section")}
	out, err := q.edit(object{"change": []object{bullet}, "read": q.field("read"), "reason": q.field("reason")})
	return q.saved("Saved.", out.Version), err
}

func setGate(q *request) (notice, error) {
	out, err := q.edit(object{"gate": q.field("mode"), "reason": q.field("reason")})
	return q.saved("The mode of the gate is "+q.field("mode")+".", out.Version), err
}

func setReview(q *request) (notice, error) {
	out, err := q.edit(object{"review": q.field("mode"), "reason": q.field("reason")})
	return q.saved("The review mode is "+q.field("mode")+".", out.Version), err
}

func setControl(q *request) (notice, error) {
	out, err := q.edit(object{"control": q.field("share"), "reason": q.field("reason")})
	return q.saved("The control share is "+q.field("share")+".", out.Version), err
}

func setLeadingScore(q *request) (notice, error) {
	if !q.PostForm.Has("name") { // an empty name removes the leading score
		return notice{}, refuse("The name of the leading score is missing.")
	}
	name := q.field("name")
	out, err := q.edit(object{"leading_score": name, "reason": q.field("reason")})
	if name == "" {
		return q.saved("The playbook has no leading score.", out.Version), err
	}
	return q.saved("The leading score is "+name+".", out.Version), err
}

func setAbout(q *request) (notice, error) {
	if !q.PostForm.Has("name") || !q.PostForm.Has("description") { // empty ones remove the texts
		return notice{}, refuse("The name or the description is missing.")
	}
	out, err := q.edit(object{"about": object{"name": q.field("name"), "description": q.field("description")}})
	return q.saved("Saved the name and the description.", out.Version), err
}

func tagVersion(q *request) (notice, error) {
	_, err := q.edit(object{"tag": object{"name": q.field("name"), "version": q.field("version")}})
	return notice{Text: fmt.Sprintf("Version %s is named %s.", q.field("version"), q.field("name"))}, err
}

func restoreVersion(q *request) (notice, error) {
	out, err := q.edit(object{"restore": q.field("version"), "read": q.field("read"), "reason": q.field("reason")})
	n := q.saved(fmt.Sprintf("Restored the bullets of version %s.", q.field("version")), out.Version)
	n.To = api.Path("books", q.book, "versions")
	return n, err
}

// decide approves or rejects the selected bullets in quarantine.
func decide(q *request) (notice, error) {
	decision, ids := q.field("decision"), q.PostForm["id"]
	if one, id, ok := strings.Cut(decision, ":"); ok { // the button of one bullet
		decision, ids = one, []string{id}
	}
	verb := map[string]string{"approve": "Approved", "reject": "Rejected"}[decision]
	switch {
	case verb == "":
		return notice{}, refuse("Choose to approve or to reject.")
	case len(ids) == 0:
		return notice{}, refuse("Select at least one bullet.")
	}
	var out api.EditReply
	for i, id := range ids {
		body := object{"reason": q.field("reason"), "read": q.field("read")}
		if err := q.post(api.Path("books", q.book, "review", id, decision), q.key(id), body, &out); err != nil {
			if i > 0 {
				return notice{}, fmt.Errorf("%s %d of %d bullets, then %s: %w", strings.ToLower(verb), i, len(ids), id, err)
			}
			return notice{}, err
		}
	}
	return q.saved(verb+" "+plural(len(ids), "bullet")+".", out.Version), nil
}

// editQuarantined changes the text of a bullet in quarantine. It stays there until it is approved.
func editQuarantined(q *request) (notice, error) {
	if q.field("content") == "" {
		return notice{}, errNoText
	}
	bullet := object{"id": q.PathValue("id"), "content": q.field("content"), "when": q.condition()}
	out, err := q.edit(object{"change": []object{bullet}, "read": q.field("read"), "reason": q.field("reason")})
	return q.saved("Saved. It still waits for a decision.", out.Version), err
}

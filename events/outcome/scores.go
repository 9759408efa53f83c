package outcome

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// Leads reports whether the score with this name counts. leading is the leading score of the playbook. If it is empty, each score
// that measures if a run succeeded counts.
func Leads(name, leading string) bool {
	if leading != "" {
		return plainName(name) == plainName(leading)
	}
	return slices.Contains(successNames, plainName(name))
}

// AddScore adds a named score to a list. It ignores a score without a name, one that is not a score, one whose name is in the list, and
// those after the first events.MaxScores. It is for recordings: a score beside the one that counts is no reason to refuse a run.
func AddScore(list []events.NamedScore, name, score string) []events.NamedScore {
	o, err := Parse(score)
	if err != nil || !o.Known() {
		return list
	}
	return addScore(list, name, o.Score)
}

func addScore(list []events.NamedScore, name string, score float64) []events.NamedScore {
	name = events.FitName(strings.TrimSpace(name))
	isNew := !slices.ContainsFunc(list, func(s events.NamedScore) bool { return s.Name == name })
	if name == "" || !isNew || len(list) == events.MaxScores {
		return list
	}
	return append(list, events.NamedScore{Name: name, Score: score})
}

// takeSideScores removes the field "scores" of an object that has the score that counts in another field. It leaves a field in another form.
func (f *fields) takeSideScores() (scores []events.NamedScore) {
	v := f.values["scores"]
	if v == nil {
		return nil
	}
	all, err := f.namedScores(v)
	if err != nil {
		return nil
	}
	delete(f.values, "scores")
	for _, r := range all {
		scores = addScore(scores, r.name, r.outcome.Score)
	}
	return scores
}

// takeScores removes the named scores: the field "scores", else all other fields with a score. Several scores need a leading
// one: the one that the playbook or the object names, or the only one that measures if the run succeeded. takeScores returns the leading
// score, and all scores if there are several.
func (f *fields) takeScores(lookup func() (string, error)) (lead []reading, scores []events.NamedScore, err error) {
	all, err := f.takeNamed()
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	if len(all) > events.MaxScores {
		return nil, nil, fmt.Errorf("scores: at most %d, got %d", events.MaxScores, len(all))
	}
	leading := ""
	if lookup != nil {
		leading, err = lookup()
		if err != nil {
			return nil, nil, &LookupError{err}
		}
	}
	if len(all) == 1 && leading == "" {
		return all, nil, nil
	}
	for _, r := range all {
		if len(all) > 1 {
			scores = addScore(scores, r.name, r.outcome.Score)
		}
		if Leads(r.name, leading) {
			lead = append(lead, r)
		}
	}
	if len(lead) == 1 {
		return lead, scores, nil
	}
	return nil, nil, leadError(all, len(lead), leading)
}

// leadError returns the error for scores of which not exactly one leads. leads is their number, and leading the name of the leading score, or "".
func leadError(all []reading, leads int, leading string) error {
	var names []string
	for _, r := range all {
		names = append(names, text.Clip(r.name, 40))
	}
	list := strings.Join(names, ", ")
	switch {
	case leading == "":
		return fmt.Errorf(`scores: several of them (%s): name the one that counts, such as "leading": %q`, list, names[0])
	case leads == 0:
		return fmt.Errorf("scores: the leading score %q is missing among %s", leading, list)
	}
	return fmt.Errorf("scores: the leading score %q is several among %s", leading, list)
}

// takeNamed removes the scores with a name and returns them, sorted by name.
func (f *fields) takeNamed() (all []reading, err error) {
	if v := f.take("scores"); v != nil {
		return f.namedScores(v)
	}
	for plain, v := range f.values {
		if o, err := ofValue(v); err == nil && o.Label != "" && v[0] != '"' { // a text is a label, not a score
			all = append(all, reading{name: f.sent[plain], outcome: o})
		}
	}
	for _, r := range all {
		delete(f.values, plainName(r.name))
	}
	slices.SortFunc(all, func(a, b reading) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// namedScores decodes {"name": score, …} or [{"name": …, "score": …}, …].
func (f *fields) namedScores(v json.RawMessage) (all []reading, err error) {
	add := func(name string, raw json.RawMessage) error {
		d, err := Decoder{Recorder: "scores", depth: f.depth}.Decode(raw) // with a Recorder, Decode accepts the name of a judge; it is not kept
		if err != nil {
			return fmt.Errorf("scores.%s: %w", text.Clip(name, 40), err)
		}
		if d.Label != "" {
			all = append(all, reading{name: name, outcome: d.Outcome})
		}
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(v, &list) == nil {
		for _, raw := range list {
			item, err := newFields(raw)
			if err != nil {
				return nil, refuse(v)
			}
			if err := add(item.takeText(keyNames...), raw); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	var byName map[string]json.RawMessage
	if json.Unmarshal(v, &byName) != nil {
		return nil, refuse(v)
	}
	for name, raw := range byName {
		if err := add(name, raw); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b reading) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

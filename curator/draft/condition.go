package draft

import (
	"cmp"
	"strings"

	"debrief/curator/screen"
	"debrief/playbook"
	"debrief/playbook/similar"
)

// keepCondition completes an UPDATE or a MERGE of a model, so that the bullet keeps its condition even if the model forgets it; see
// completeCondition.
func (d *draft) keepCondition(op *playbook.Op) *screen.Refusal {
	replaced := []*playbook.Bullet{d.Bullet(op.Bullet)}
	for _, id := range op.Sources {
		if b := d.Bullet(id); b != nil {
			replaced = append(replaced, b)
		}
	}
	return completeCondition(op, replaced)
}

// completeCondition completes an UPDATE or a MERGE. replaced are the bullets that it replaces, first the one that keeps its id. An operation
// without a condition gets the common condition of the bullets. If they have different ones, it gets the condition of the first bullet, but
// only with exactly the advice of this bullet. An UPDATE with another condition becomes an ADD, because it is advice for another case, unless
// it only corrects a limit. A MERGE with another condition is refused.
func completeCondition(op *playbook.Op, replaced []*playbook.Bullet) (refusal *screen.Refusal) {
	first := replaced[0]
	hasFirstAdvice := playbook.ContentKeyOf(op.Content) == playbook.ContentKeyOf(first.Advice())
	if op.When == "" && (hasFirstAdvice || haveOneCondition(replaced)) {
		op.When = first.When
	}
	when, content, err := playbook.CleanText(op.When, op.Content)
	if err != nil {
		return screen.Refusef(playbook.ReasonInvalidText, "%v", err)
	}
	op.When, op.Content = when, content
	refusal = refuseCondition(op, first)
	if refusal != nil && op.Kind == playbook.Update {
		if similar.CorrectsLimit(first.Content, op.Content) {
			return nil
		}
		op.Kind, op.Bullet, op.Section = playbook.Add, "", cmp.Or(op.Section, first.Section)
		return nil
	}
	return refusal
}

// isCovered reports whether the bullet b, with an unchanged text, says all that a source of its merge says, for every case of the source and
// perhaps for more. Then the source can go at once. The outcomes of b must be good: a source with a narrower condition may be the right text
// of a bullet that says too much.
func (d *draft) isCovered(source, b *playbook.Bullet, op *playbook.Op) bool {
	isUnchanged := op.When == b.When && op.Content == b.Content
	corrects := source.Replaces == b.ID || source.Contests == b.ID
	if !isUnchanged || corrects || !d.isSupported(b) || !similar.IsNarrower(b.When, source.When) {
		return false
	}
	return similar.Missing(source.Advice(), b.Advice()).Kind == similar.Same
}

// haveOneCondition reports whether all bullets have the same condition.
func haveOneCondition(bullets []*playbook.Bullet) bool {
	for _, b := range bullets[1:] {
		if !strings.EqualFold(b.When, bullets[0].When) {
			return false
		}
	}
	return true
}

// refuseCondition returns why the condition of an operation does not name that of a bullet which it replaces, or nil.
func refuseCondition(op *playbook.Op, b *playbook.Bullet) *screen.Refusal {
	if lost := similar.Missing(b.When, op.When); lost.Kind != similar.Same {
		return screen.Refusef(playbook.ReasonCondition, "bullet %q holds when %s, and the new condition must say this, too: %s", b.ID, b.When, lost.Reason)
	}
	return nil
}

// refuseLoss returns why a merged text would lose a part of a bullet, or nil. Its condition must name the condition of each bullet; if a
// bullet holds always, the text must hold always too. The text must have each number and each name of the bullets. Bullets with
// different conditions are different rules, unless they give the same advice: then the text must give the same advice, too. replaced has no
// bullets that the text covers, see isCovered.
func refuseLoss(op *playbook.Op, replaced []*playbook.Bullet) *screen.Refusal {
	isOneCase := haveOneCondition(replaced)
	for _, b := range replaced {
		if b.When == "" && op.When != "" {
			return screen.Refusef(playbook.ReasonCondition, "bullet %q holds always, and the merged text only when %s", b.ID, op.When)
		}
		if refusal := refuseCondition(op, b); refusal != nil {
			return refusal
		}
		advice := playbook.Advice(op.When, op.Content)
		lost := similar.Missing(b.Advice(), advice)
		if lost.Kind == similar.Numbers || lost.Kind == similar.Identifiers {
			return screen.Refusef(playbook.ReasonCondition, "the merged text must keep what bullet %q says: %s", b.ID, lost.Reason)
		}
		if other := similar.Difference(b.Advice(), advice); !isOneCase && other.Kind != similar.Same {
			return screen.Refusef(playbook.ReasonCondition, "bullet %q has another condition and other advice: %s", b.ID, other.Reason)
		}
	}
	return nil
}

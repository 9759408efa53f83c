package generator

import (
	"slices"
	"strings"
	"testing"

	"debrief/playbook"
)

// A question with a long list of options names the words of every bullet. The search for bullets uses the words of the question alone.
func TestSearchIgnoresOptionsOfQuestion(t *testing.T) {
	t.Parallel()
	bullets := []*playbook.Bullet{
		{ID: "rent", Section: "tags", Content: "The amount paid for an office lease is OperatingLeasePayments."},
		{ID: "debt", Section: "tags", Content: "For the rate of a bond choose DebtInterestRate, and for its term LongTermDebt or DebtTerm."},
	}
	embeddings := new(embeddingCache)
	ix := newPlaybookIndex(embeddings, false, 0)
	ix.update(playbook.Restore(1, 0, slices.Values(bullets)))
	options := strings.Repeat("DebtInterestRate,LongTermDebt,DebtTerm,Revenues,", 10)
	question := "Options: None," + options + "OperatingLeasePayments. The company paid 5 million for its office lease."
	q := embeddings.embedQuery(t.Context(), question, new(warnings))
	if near := ix.nearWords(q); len(near) == 0 || near[0].Key != "rent" {
		t.Errorf("got %v, want the bullet about leases first", near)
	}
}

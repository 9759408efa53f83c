package playbook

// Reason is the code of a decision: why an operation was rejected, or why the Curator changed the status of a bullet. The
// sentence stored with it is for people; programs read only the code. Codes are stored, so never change or reuse one. A
// program may read codes of a newer version that it does not know. An empty Reason means that none was recorded.
type Reason string

// The reasons why an operation is rejected.
const (
	// The text itself.
	ReasonSecret       Reason = "secret"              // the text looks as if it contains a secret
	ReasonInjection    Reason = "prompt-injection"    // the text gives instructions to a model
	ReasonRestated     Reason = "restated-prompt"     // the text repeats our own prompt
	ReasonTooShort     Reason = "too-short"           // the text has too few words to be advice
	ReasonInvalidText  Reason = "invalid-text"        // empty, too long or not UTF-8
	ReasonSupported    Reason = "supported"           // outcomes support the bullet: only outcomes can retire it
	ReasonRejectedText Reason = "rejected-before"     // the text was rejected for good before
	ReasonDuplicate    Reason = "duplicate"           // a bullet has the same text
	ReasonSimilar      Reason = "similar"             // a bullet has nearly the same text
	ReasonCondition    Reason = "condition-lost"      // it would lose the condition or a part of a bullet
	ReasonContradicts  Reason = "contradicts-success" // it would rewrite or remove a bullet that outcomes support

	// The operation.
	ReasonInvalid       Reason = "invalid"        // the operation is malformed
	ReasonIgnored       Reason = "ignored-field"  // a field of the operation was ignored, the rest was carried out
	ReasonUnknownBullet Reason = "unknown-bullet" // the playbook does not have the bullet
	ReasonExists        Reason = "bullet-exists"  // the playbook already has a bullet with the id
	ReasonPinned        Reason = "pinned"         // the bullet is pinned
	ReasonStatus        Reason = "status"         // the status of the bullet does not allow it
	ReasonVoted         Reason = "duplicate-vote" // the sample has already voted on the bullet
	ReasonSuperseded    Reason = "superseded"     // another proposal of the same batch was chosen
	ReasonCorrected     Reason = "corrected"      // later feedback changed the outcome
	ReasonChanged       Reason = "changed-since"  // the bullet or playbook has changed since the caller read it
	ReasonNotFound      Reason = "not-found"      // a version, a reflection or an execution was not found
	ReasonNotCompared   Reason = "not-compared"   // a model did not compare all proposals

	// Limits.
	ReasonDeltaFull     Reason = "delta-full"     // no room in this delta
	ReasonTokenBudget   Reason = "token-budget"   // the change would exceed the token budget
	ReasonNoIDs         Reason = "no-ids"         // the playbook has used all bullet ids
	ReasonMore          Reason = "more"           // further rejections, which are only counted
	ReasonUntrusted     Reason = "untrusted"      // the source is not trusted
	ReasonSourceShare   Reason = "source-share"   // the source has reached its share of the evidence
	ReasonTooManyAtOnce Reason = "too-many-added" // one session or source added too many bullets in a short time

	// The admission of new texts.
	ReasonReview   Reason = "review-first" // a person must approve new texts of the playbook
	ReasonInferred Reason = "inferred"     // the outcomes behind it were only inferred
	ReasonCopied   Reason = "copied"       // the text is copied from a task or from the result of a tool

	ReasonForgotten Reason = "forgotten" // the execution behind it is forgotten
)

// The reasons why the Curator changes the status of a bullet, besides ReasonTokenBudget, ReasonUntrusted,
// ReasonContradicts, ReasonTooManyAtOnce, ReasonInjection, ReasonCopied, ReasonReview and ReasonInferred.
const (
	ReasonHelps       Reason = "helps"             // the experiment shows a benefit
	ReasonHarms       Reason = "harms"             // the experiment shows harm
	ReasonFails       Reason = "fails"             // tasks that cite it fail more often than tasks without it
	ReasonNoBenefit   Reason = "no-benefit"        // the experiment ended without a result
	ReasonTrusted     Reason = "trusted"           // tasks that cite it succeed
	ReasonSuspect     Reason = "suspect"           // tasks that cite it seem to fail
	ReasonSuspended   Reason = "suspended"         // tasks that cite it seem to fail, and it waits for a confirmation
	ReasonDrift       Reason = "drift"             // the outcomes have become worse
	ReasonConfirmed   Reason = "confirmed"         // enough executions requested it
	ReasonReplaced    Reason = "replaced"          // another bullet replaces it
	ReasonReturned    Reason = "returned"          // the bullet that replaced it is no longer shown
	ReasonTooMany     Reason = "too-many-waiting"  // other waiting bullets have more confirmations or are newer
	ReasonRemoval     Reason = "removal-requested" // its removal was requested, and its record is not good
	ReasonUnconfirmed Reason = "unconfirmed"       // it contradicts a supported bullet and waits for a confirmation
	ReasonGateOff     Reason = "gate-off"          // the gate was turned off
	ReasonPerson      Reason = "person"            // a person decided
	ReasonViolation   Reason = "violation"         // a run that followed it broke a rule, and a person decides
)

// RejectionReasons returns the reasons why an operation is rejected.
func RejectionReasons() []Reason {
	return []Reason{
		ReasonSecret, ReasonInjection, ReasonRestated, ReasonTooShort, ReasonInvalidText, ReasonRejectedText,
		ReasonDuplicate, ReasonSimilar, ReasonCondition, ReasonContradicts, ReasonSupported, ReasonInvalid, ReasonIgnored,
		ReasonUnknownBullet, ReasonExists, ReasonPinned, ReasonStatus, ReasonVoted,
		ReasonSuperseded, ReasonCorrected, ReasonChanged, ReasonNotFound, ReasonNotCompared, ReasonDeltaFull,
		ReasonTokenBudget, ReasonNoIDs, ReasonMore, ReasonUntrusted, ReasonSourceShare, ReasonTooManyAtOnce, ReasonReview, ReasonInferred,
		ReasonCopied, ReasonForgotten,
	}
}

// StatusReasons returns the reasons why the gate changes the status or the standing of a bullet.
func StatusReasons() []Reason {
	return []Reason{
		ReasonHelps, ReasonHarms, ReasonFails, ReasonNoBenefit, ReasonTrusted, ReasonSuspect, ReasonSuspended, ReasonDrift, ReasonConfirmed,
		ReasonReplaced, ReasonReturned, ReasonTooMany, ReasonRemoval, ReasonUnconfirmed, ReasonGateOff, ReasonPerson,
		ReasonViolation,
	}
}

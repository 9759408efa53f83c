package chat

// PromptTexts returns the texts of all instructions.
func PromptTexts() []string {
	return []string{
		PromptTask, PromptAnswerFormat, PromptAgent, PromptAdvice, PromptSummary,
		PromptAttempt, PromptEarlierAttempts, PromptRightAnswer, promptSuspect, PromptQuotes, PromptRecords, PromptExplanation, PromptJudge,
	}
}

package chat

// PromptTexts returns the texts of all instructions.
func PromptTexts() []string {
	return []string{
		PromptTask, PromptAnswerFormat, PromptAgent, PromptAdvice,
		PromptAttempt, PromptEarlierAttempts, PromptAgentRules, PromptWithheld, PromptNotes, PromptRightAnswer, PromptQuotes, PromptRecords,
		PromptJudge, PromptJudgeScores, DefaultRubric,
	}
}

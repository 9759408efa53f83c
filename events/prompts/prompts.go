// Package prompts contains the instructions that Generators and Reflectors send to models. They are below the roles, because the
// Curator refuses content that repeats them. Its own instructions are in package propose. The forms of the replies are beside
// the code that reads them.
package prompts

// All returns the texts of all instructions.
func All() []string {
	return []string{
		GeneratorTask, AnswerFormat, Agent, Advice, Summary,
		Attempt, EarlierAttempts, RightAnswer, Suspect, Quotes, Records, Explanation,
	}
}

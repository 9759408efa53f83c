package proxy

// Headers of requests and responses. The gateway removes the headers with headerPrefix from a request before it sends it to the provider.
const (
	headerPrefix = "X-Debrief-"

	// Of requests.
	headerBook  = "X-Debrief-Book"
	headerMode  = "X-Debrief-Mode"
	headerToken = "X-Debrief-Token"
	headerTask  = "X-Debrief-Task"
	headerUser  = "X-Debrief-User"
	headerScore = "X-Debrief-Score"         // the outcome of the run
	headerLabel = "X-Debrief-Label"         // the outcome of the run
	headerHops  = "Debrief-Hops"            // ids of the gateways that forwarded a call
	headerKey   = "X-Api-Key"               // of Anthropic
	headerRetry = "X-Stainless-Retry-Count" // of the SDKs of OpenAI and Anthropic

	// Of requests and responses. A response has the session of a conversation without a name, for its sub-agents.
	headerSession = "X-Debrief-Session"

	// Of responses.
	headerDegraded = "X-Debrief-Degraded"
	headerError    = "X-Debrief-Error"
	headerRun      = "X-Debrief-Run"
	headerContext  = "X-Debrief-Context"
	headerVersion  = "X-Debrief-Playbook-Version"
	headerBullets  = "X-Debrief-Bullets"
)

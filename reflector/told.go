package reflector

// Told is what a model is told before it reflects.
func Told() string {
	return systemText + "\n" + triedText + "\n" + rightText + "\n" + quoteText + "\n" + layerText
}

package redact

import "strings"

const maxCommand = 256 // bytes between the name of a command and its option

// redactOption redacts the value after the dashes of an option of a command: in "--password value", "curl -u name:value", "curl -b name=value"
// and "sshpass -p value".
func (sc *scanner) redactOption(i int) int {
	s := sc.s
	if strings.HasPrefix(s[i:], "-p") && sc.isFirstOption("sshpass", i) {
		return sc.redactSSHPass(i)
	}
	end := i + run(s[i:], dotted, maxName)
	option := s[i:end]
	if end >= len(s) || s[end] != ' ' {
		return i
	}
	switch option {
	case "-u", "--user":
		if sc.follows("curl", i) {
			return sc.redactUser(i, end)
		}
	case "-b", "--cookie":
		if sc.follows("curl", i) {
			sc.findCookies(end, ends)
			return i
		}
	}
	isBuildSecret := option == "--secret" && isParameter(s[end:]) // of docker build: --secret id=name
	if !strings.HasPrefix(option, "--") || isBuildSecret {
		return i
	}
	return sc.redactNamed(end, option, false)
}

// follows reports whether the name of a command is before its option at i.
func (sc *scanner) follows(command string, i int) bool {
	return strings.Contains(sc.s[max(sc.floor, i-maxCommand):i], command+" ")
}

// isFirstOption reports whether only options are between the name of a command and its option at i.
func (sc *scanner) isFirstOption(command string, i int) bool {
	before := sc.s[max(sc.floor, i-maxCommand):i]
	at := strings.LastIndex(before, command+" ")
	if at < 0 || before[len(before)-1] != ' ' {
		return false
	}
	for word := range strings.FieldsSeq(before[at+len(command):]) {
		if word[0] != '-' {
			return false
		}
	}
	return true
}

// redactUser redacts the password in "name:password" after an option of curl, which is s[i:end].
func (sc *scanner) redactUser(i, end int) int {
	v, _ := sc.valueAfter(end, false)
	name, pass, _ := strings.Cut(sc.s[v.from:v.to], ":")
	if n := countChars(pass); n.digits == 0 || n.letters == 0 || isIdentifier(pass) || isPlaceholder(pass) || isReference(pass) {
		return i
	}
	return sc.replace(v.from+len(name)+1, v.to, string(password))
}

// redactSSHPass redacts the password in "-p value" or "-pvalue" at i, an option of sshpass.
func (sc *scanner) redactSSHPass(i int) int {
	s := sc.s
	v, ok := sc.valueAfter(i+1, false) // after the p, as after a separator
	pass := s[v.from:v.to]
	if !ok || len(pass) < 4 || isPlaceholder(pass) || isReference(pass) {
		return i
	}
	mayBeWord := !v.quoted && isIdentifier(pass)
	next := strings.TrimLeft(s[v.to:min(len(s), v.to+maxBlanks)], " ")
	isBeforeCommand := strings.HasPrefix(next, "ssh") || strings.HasPrefix(next, "scp") || strings.HasPrefix(next, "sftp") || strings.HasPrefix(next, "rsync")
	if mayBeWord && !isBeforeCommand {
		return i
	}
	return sc.replace(v.from, v.to, string(password))
}

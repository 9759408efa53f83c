package web

import "strings"

// attack is markup that runs a script if a page shows it as markup, in an attribute, in a script or as an address. It contains
// control characters, and characters that change the direction of the text after them.
const attack = `"><script>window.hacked=1</script><img src=x onerror=hacked=1>'{{7*7}}</textarea></title>` + "\x00\x1b[31m\u202e\u2066"

// poisoned returns an attack for a field, with a marker for it.
func poisoned(field, _ string) string { return "javascript:hacked=1//" + marker(field) + attack }

// marker is a text that stays the same in names of sections and in excerpts.
func marker(field string) string { return "qq" + strings.ReplaceAll(field, " ", "") + "qq" }

package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
)

// Fields redacts every string that is reachable from v, a pointer to a struct, through structs, pointers and
// slices. It uses Text, or ID for fields with the tag `redact:"id"`. Fields with the tag `redact:"-"`, maps and
// bytes are not changed. It writes only strings with a secret, so goroutines may share strings without secrets.
func Fields(v any) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		panic(fmt.Sprintf("redact %T: want a pointer", v)) // a programming error, visible at the first call
	}
	redactValue(p.Elem(), Text)
}

// redactValue redacts the strings that are reachable from a value with clean.
func redactValue(v reflect.Value, clean func(string) string) {
	switch v.Kind() {
	case reflect.String:
		s := v.String()
		if cleaned := clean(s); cleaned != s {
			v.SetString(cleaned)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			redactValue(v.Elem(), clean)
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.String && k != reflect.Struct && k != reflect.Pointer && k != reflect.Slice {
			return // such as the bytes of a hash or the numbers of a vector
		}
		for i := range v.Len() {
			redactValue(v.Index(i), clean)
		}
	case reflect.Struct:
		for f, field := range v.Fields() {
			switch tag := f.Tag.Get("redact"); {
			case !f.IsExported(), tag == "-":
			case tag == "id":
				redactValue(field, ID)
			default:
				redactValue(field, Text)
			}
		}
	}
}

// ID returns id, or a replacement if it contains a secret: "redacted-" and 16 hex digits of the hash. The same id
// has the same replacement in every field and every process.
func ID(id string) string {
	if isShortWord(id) && !personal.Load() {
		return id
	}
	kind := Kind(id)
	if kind == "" {
		return id
	}
	count(kind)
	sum := sha256.Sum256([]byte(id))
	return "redacted-" + hex.EncodeToString(sum[:8])
}

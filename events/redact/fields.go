package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"sync"
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
		if !canHoldText(v.Type().Elem().Kind()) {
			return
		}
		for i := range v.Len() {
			redactValue(v.Index(i), clean)
		}
	case reflect.Struct:
		for _, f := range textFieldsOf(v.Type()) {
			redactValue(v.Field(f.index), f.clean)
		}
	}
}

// textField is a field of a struct type that is redacted with clean.
type textField struct {
	index int
	clean func(string) string
}

// textFields has the []textField of each reflect.Type. Without it, reading types and tags takes a tenth of the time of a task.
var textFields sync.Map

func textFieldsOf(t reflect.Type) []textField {
	if known, ok := textFields.Load(t); ok {
		return known.([]textField)
	}
	var fields []textField
	for f := range t.Fields() {
		tag := f.Tag.Get("redact")
		if !f.IsExported() || tag == "-" || !canHoldText(f.Type.Kind()) {
			continue
		}
		clean := Text
		if tag == "id" {
			clean = ID
		}
		fields = append(fields, textField{f.Index[0], clean})
	}
	textFields.Store(t, fields)
	return fields
}

// canHoldText is false for kinds such as the numbers of a vector.
func canHoldText(k reflect.Kind) bool {
	return k == reflect.String || k == reflect.Struct || k == reflect.Pointer || k == reflect.Slice
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

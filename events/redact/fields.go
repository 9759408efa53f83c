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
	if redact := redactFuncOf(p.Type().Elem()); redact != nil {
		redact(p.Elem())
	}
}

// redactFunc redacts the strings of one value.
type redactFunc func(reflect.Value)

// redactFuncs caches the redactFunc of each type; nil means that the type contains no strings.
var redactFuncs sync.Map // reflect.Type to redactFunc

func redactFuncOf(t reflect.Type) redactFunc {
	if redact, ok := redactFuncs.Load(t); ok {
		return redact.(redactFunc)
	}
	redact := buildRedactFunc(t, Text, map[reflect.Type]bool{})
	redactFuncs.Store(t, redact)
	return redact
}

// buildRedactFunc returns the redactFunc of a type. clean redacts its strings. open has the types that are being built. For a type
// among them, a recursive one, the result looks up the finished redactFunc when it is called.
func buildRedactFunc(t reflect.Type, clean func(string) string, open map[reflect.Type]bool) redactFunc {
	if open[t] {
		return func(v reflect.Value) {
			if redact := redactFuncOf(t); redact != nil {
				redact(v)
			}
		}
	}
	open[t] = true
	defer delete(open, t)
	switch t.Kind() {
	case reflect.String:
		return func(v reflect.Value) {
			s := v.String()
			if cleaned := clean(s); cleaned != s {
				v.SetString(cleaned)
			}
		}
	case reflect.Pointer:
		if redact := buildRedactFunc(t.Elem(), clean, open); redact != nil {
			return func(v reflect.Value) {
				if !v.IsNil() {
					redact(v.Elem())
				}
			}
		}
	case reflect.Slice:
		if redact := buildRedactFunc(t.Elem(), clean, open); redact != nil {
			return func(v reflect.Value) {
				for i := range v.Len() {
					redact(v.Index(i))
				}
			}
		}
	case reflect.Struct:
		return structRedactFunc(t, open)
	}
	return nil
}

func structRedactFunc(t reflect.Type, open map[reflect.Type]bool) redactFunc {
	type field struct {
		index  int
		redact redactFunc
	}
	var fields []field
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("redact")
		if !f.IsExported() || tag == "-" {
			continue
		}
		clean := Text
		if tag == "id" {
			clean = ID
		}
		if redact := buildRedactFunc(f.Type, clean, open); redact != nil {
			fields = append(fields, field{i, redact})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.redact(v.Field(f.index))
		}
	}
}

// ID returns id, or a replacement if it contains a secret: "redacted-" and 16 hex digits of the hash. The same id
// has the same replacement in every field and every process.
func ID(id string) string {
	if isShortWord(id) && !personal.Load() {
		return id
	}
	known, repeated := cleanTexts.has(id)
	if known {
		return id
	}
	kind := Kind(id)
	if kind == "" {
		if repeated { // an id that occurs once need not be remembered
			cleanTexts.add(id)
		}
		return id
	}
	count(kind)
	sum := sha256.Sum256([]byte(id))
	return "redacted-" + hex.EncodeToString(sum[:8])
}

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
	if p, ok := redactFuncs.Load(t); ok {
		return p.(redactFunc)
	}
	p := buildRedactFunc(t, Text, map[reflect.Type]bool{})
	redactFuncs.Store(t, p)
	return p
}

// buildRedactFunc returns the redactFunc of a type. clean redacts its strings. open has the types that are being built. A
// recursive type is among them: its redactFunc is looked up when a value is visited, because it exists by then.
func buildRedactFunc(t reflect.Type, clean func(string) string, open map[reflect.Type]bool) redactFunc {
	if open[t] {
		return func(v reflect.Value) {
			if p := redactFuncOf(t); p != nil {
				p(v)
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
		if p := buildRedactFunc(t.Elem(), clean, open); p != nil {
			return func(v reflect.Value) {
				if !v.IsNil() {
					p(v.Elem())
				}
			}
		}
	case reflect.Slice:
		if p := buildRedactFunc(t.Elem(), clean, open); p != nil {
			return func(v reflect.Value) {
				for i := range v.Len() {
					p(v.Index(i))
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
		if p := buildRedactFunc(f.Type, clean, open); p != nil {
			fields = append(fields, field{i, p})
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
	if isShortWord(id) {
		return id
	}
	known, repeated := cleanTexts.has(id)
	if known {
		return id
	}
	kind := Kind(id)
	if kind == "" {
		if repeated {
			cleanTexts.add(id)
		}
		return id
	}
	count(kind)
	sum := sha256.Sum256([]byte(id))
	return "redacted-" + hex.EncodeToString(sum[:8])
}

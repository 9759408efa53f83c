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

// redactValue redacts the strings that are reachable from a value. clean redacts those of the value itself, and the tags of fields choose
// for those of a struct.
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
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		for i := range v.Len() {
			redactValue(v.Index(i), clean)
		}
	case reflect.Struct:
		for i, f := range taggedFields(v.Type()) {
			switch f {
			case cleanText:
				redactValue(v.Field(i), Text)
			case cleanID:
				redactValue(v.Field(i), ID)
			}
		}
	}
}

// fieldTag says how to redact a field of a struct.
type fieldTag uint8

const (
	keepField fieldTag = iota
	cleanText
	cleanID
)

// fieldTags caches the tags of the fields of each struct type.
var fieldTags sync.Map // reflect.Type to []fieldTag

func taggedFields(t reflect.Type) []fieldTag {
	if tags, ok := fieldTags.Load(t); ok {
		return tags.([]fieldTag)
	}
	tags := make([]fieldTag, t.NumField())
	for i := range tags {
		f := t.Field(i)
		switch tag := f.Tag.Get("redact"); {
		case !f.IsExported() || tag == "-":
		case tag == "id":
			tags[i] = cleanID
		default:
			tags[i] = cleanText
		}
	}
	fieldTags.Store(t, tags)
	return tags
}

// ID returns id, or a replacement if it contains a secret: "redacted-" and 16 hex digits of the hash. The same id
// has the same replacement in every field and every process.
func ID(id string) string {
	if isShortWord(id) {
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

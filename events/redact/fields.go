package redact

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"sync"
)

// Fields replaces the secrets in every string that v, a pointer to a struct, leads to, through structs, pointers and slices:
// with Text, and with ID in fields that have the tag `redact:"id"`. Fields with the tag `redact:"-"`, maps and bytes stay.
// It writes only where it found something, so that two goroutines can pass values that share clean strings.
func Fields(v any) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		panic(fmt.Sprintf("redact %T: want a pointer", v)) // a fault of ours, on the first call
	}
	if plan := planOf(p.Type().Elem()); plan != nil {
		plan(p.Elem())
	}
}

// visit redacts the texts of one value.
type visit func(reflect.Value)

// plans remembers, for each type, how its texts are reached; nil is that there are none.
var plans sync.Map // reflect.Type to visit

func planOf(t reflect.Type) visit {
	if p, ok := plans.Load(t); ok {
		return p.(visit)
	}
	p := makePlan(t, Text, map[reflect.Type]bool{})
	plans.Store(t, p)
	return p
}

// makePlan makes the plan of a type, with what replaces the secrets in its strings. A type within itself is looked up again
// at its time: it has a plan by then.
func makePlan(t reflect.Type, clean func(string) string, open map[reflect.Type]bool) visit {
	if open[t] {
		return func(v reflect.Value) {
			if p := planOf(t); p != nil {
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
			if to := clean(s); len(to) != len(s) || to != s {
				v.SetString(to)
			}
		}
	case reflect.Pointer:
		if p := makePlan(t.Elem(), clean, open); p != nil {
			return func(v reflect.Value) {
				if !v.IsNil() {
					p(v.Elem())
				}
			}
		}
	case reflect.Slice:
		if p := makePlan(t.Elem(), clean, open); p != nil {
			return func(v reflect.Value) {
				for i := range v.Len() {
					p(v.Index(i))
				}
			}
		}
	case reflect.Struct:
		return structPlan(t, open)
	}
	return nil
}

func structPlan(t reflect.Type, open map[reflect.Type]bool) visit {
	type field struct {
		index int
		visit visit
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
		if p := makePlan(f.Type, clean, open); p != nil {
			fields = append(fields, field{i, p})
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, f := range fields {
			f.visit(v.Field(f.index))
		}
	}
}

// ID returns an id, or, where it holds a secret, a name in its place: "redacted-" and 16 hex digits of the id's hash, so
// that the same id keeps the same name in every field and every process.
func ID(id string) string {
	kind := Kind(id)
	if kind == "" {
		return id
	}
	count(kind)
	sum := sha256.Sum256([]byte(id))
	return "redacted-" + hex.EncodeToString(sum[:8])
}

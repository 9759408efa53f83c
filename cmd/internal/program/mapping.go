package program

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"debrief/events/config"
)

// copyFields copies each field of a struct, from, to the field with the same name of the struct behind a pointer, to. One struct has
// flags, the other one is the configuration of a library. Fields without a counterpart stay unchanged. It panics if the types of two
// fields differ and are not both structs.
func copyFields(to, from any) { copyValues(reflect.ValueOf(to).Elem(), reflect.ValueOf(from)) }

func copyValues(to, from reflect.Value) {
	for i := range to.NumField() {
		field, other := to.Field(i), from.FieldByName(to.Type().Field(i).Name)
		switch {
		case !other.IsValid(): // no counterpart
		case field.Type() == other.Type():
			field.Set(other)
		default:
			copyValues(field, other)
		}
	}
}

// FlagErrors returns the error of a configuration with the names of flags in place of the names of fields. flags is the
// struct with the flags. A field without a flag keeps its name.
func FlagErrors(err error, flags any) error {
	return config.Rename(err, func(field string) string { return flagOf(flags, field) })
}

// flagOf returns the flag of a field, with its dashes, or the field if it has none. The field is a path, such as Gate.Alpha.
func flagOf(flags any, field string) string {
	t := reflect.TypeOf(flags)
	var prefix, name string
	for part := range strings.SplitSeq(field, ".") {
		if t.Kind() != reflect.Struct {
			return field
		}
		f, ok := t.FieldByName(part)
		if !ok {
			return field
		}
		t, name = f.Type, f.Tag.Get("name")
		prefix += f.Tag.Get("prefix")
	}
	if name == "" {
		return field
	}
	return "--" + prefix + name
}

// defaulter is a struct of flags that takes the defaults of its fields from a library.
type defaulter interface{ SetDefaults() }

// setDefaults gives the flags of a command, and of those below it, the defaults of the libraries. It runs before the flags
// are parsed. A flag whose default is zero has the tag "default", so that the help shows the zero.
func setDefaults(n *kong.Node) {
	callDefaulters(n.Target)
	for _, flag := range n.Flags {
		if !flag.HasDefault && !flag.Target.IsZero() {
			flag.Default, flag.HasDefault = defaultText(flag.Target), true
		}
	}
	for _, child := range n.Children {
		setDefaults(child)
	}
}

// callDefaulters calls SetDefaults of a struct and of those embedded in it.
func callDefaulters(v reflect.Value) {
	if v.Kind() != reflect.Struct {
		return
	}
	if v.CanInterface() {
		if d, ok := v.Addr().Interface().(defaulter); ok {
			d.SetDefaults()
		}
	}
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if _, embedded := f.Tag.Lookup("embed"); embedded || f.Anonymous {
			callDefaulters(v.Field(i))
		}
	}
}

// defaultText formats a default as on the command line.
func defaultText(v reflect.Value) string {
	if d, ok := v.Interface().(time.Duration); ok {
		text := d.String() // such as 168h0m0s, which becomes 168h
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		return text
	}
	return fmt.Sprint(v.Interface())
}

package schema_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"debrief/events/schema"
)

// object is a kind of object in the AsyncAPI 3.0 specification. It has no other fields than these, except extensions,
// whose names begin with "x-".
type object struct {
	required []string
	fields   map[string]check
}

// check returns an error for each violation in a value at a path.
type check func(d *specified, path string, v any)

// specified is a document with the violations that were found.
type specified struct {
	root   map[string]any
	faults []string
}

func (d *specified) fault(path, format string, args ...any) {
	d.faults = append(d.faults, path+": "+fmt.Sprintf(format, args...))
}

var (
	identifier = regexp.MustCompile(`^[\w.\-]+$`)                                       // a key of a map of components, channels or operations
	extension  = regexp.MustCompile(`^x-[\w.\-]+$`)                                     // a field that the specification leaves to programs
	location   = regexp.MustCompile(`^\$message\.(header|payload)#(/([^/~]|~[01])*)*$`) // a runtime expression
	mediaType  = regexp.MustCompile(`^[a-z]+/[a-z0-9.+-]+$`)
)

// Objects of the specification, with the fields that are not bindings, security, tags or traits. Debrief uses none of these.
var (
	infoObject = object{[]string{"title", "version"}, map[string]check{
		"title": text, "version": text, "description": text, "termsOfService": text, "contact": contactObject.check, "license": licenseObject.check,
	}}
	contactObject   = object{nil, map[string]check{"name": text, "url": text, "email": text}}
	licenseObject   = object{[]string{"name"}, map[string]check{"name": text, "url": text}}
	parameterObject = object{nil, map[string]check{
		"description": text, "default": text, "enum": listOf(text), "examples": listOf(text), "location": matching(location),
	}}
	channelObject = object{nil, map[string]check{
		"address": textOrNull, "title": text, "summary": text, "description": text,
		"messages": mapOf(refTo("#/components/messages/")), "parameters": mapOf(parameterObject.check),
	}}
	operationObject = object{[]string{"action", "channel"}, map[string]check{
		"action": matching(regexp.MustCompile("^(send|receive)$")), "channel": refTo("#/channels/"), "title": text, "summary": text, "description": text,
		"messages": listOf(refTo("#/channels/")), "reply": replyObject.check,
	}}
	replyObject = object{nil, map[string]check{
		"address": addressObject.check, "channel": refTo("#/channels/"), "messages": listOf(refTo("#/channels/")),
	}}
	addressObject = object{[]string{"location"}, map[string]check{"location": matching(location), "description": text}}
	messageObject = object{nil, map[string]check{
		"name": text, "title": text, "summary": text, "description": text, "contentType": matching(mediaType), "headers": headersSchema, "payload": schemaObject,
		"examples": listOf(exampleObject.check),
	}}
	exampleObject    = object{nil, map[string]check{"name": text, "summary": text, "headers": mapOf(text), "payload": mapOf(anything)}}
	componentsObject = object{nil, map[string]check{"messages": mapOf(messageObject.check), "schemas": mapOf(schemaObject)}}
	rootObject       = object{[]string{"asyncapi", "info"}, map[string]check{
		"asyncapi": matching(regexp.MustCompile(`^3\.0\.0$`)), "id": text, "info": infoObject.check, "defaultContentType": matching(mediaType),
		"channels": mapOf(channelObject.check), "operations": mapOf(operationObject.check), "components": componentsObject.check,
	}}
)

// check reports fields that the object does not have, and required fields that are missing.
func (o object) check(d *specified, path string, v any) {
	fields, ok := v.(map[string]any)
	if !ok {
		d.fault(path, "must be an object, is %T", v)
		return
	}
	for _, name := range o.required {
		if _, ok := fields[name]; !ok {
			d.fault(path, "has no field %q", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if extension.MatchString(name) {
			continue
		}
		if field, ok := o.fields[name]; ok {
			field(d, path+"/"+name, fields[name])
		} else {
			d.fault(path, "unknown field %q", name)
		}
	}
}

func anything(*specified, string, any) {}

func text(d *specified, path string, v any) {
	if s, ok := v.(string); !ok || s == "" {
		d.fault(path, "must be a text, is %v", v)
	}
}

func textOrNull(d *specified, path string, v any) {
	if v != nil {
		text(d, path, v)
	}
}

func matching(pattern *regexp.Regexp) check {
	return func(d *specified, path string, v any) {
		if s, ok := v.(string); !ok || !pattern.MatchString(s) {
			d.fault(path, "must match %s, is %v", pattern, v)
		}
	}
}

func listOf(item check) check {
	return func(d *specified, path string, v any) {
		list, ok := v.([]any)
		if !ok {
			d.fault(path, "must be a list, is %T", v)
		}
		for i, v := range list {
			item(d, fmt.Sprint(path, "/", i), v)
		}
	}
}

func mapOf(item check) check {
	return func(d *specified, path string, v any) {
		all, ok := v.(map[string]any)
		if !ok {
			d.fault(path, "must be an object, is %T", v)
		}
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if !identifier.MatchString(name) {
				d.fault(path, "invalid name %q", name)
			}
			item(d, path+"/"+name, all[name])
		}
	}
}

// refTo accepts a reference object: the one field $ref, whose target exists and has this place.
func refTo(prefix string) check {
	return func(d *specified, path string, v any) {
		fields, _ := v.(map[string]any)
		target, _ := fields["$ref"].(string)
		if len(fields) != 1 || !strings.HasPrefix(target, prefix) {
			d.fault(path, "must be a reference below %s, is %v", prefix, v)
		} else if d.find(target) == nil {
			d.fault(path, "%s does not exist", target)
		}
	}
}

// find returns the value at a JSON pointer, nil without one.
func (d *specified) find(pointer string) any {
	var v any = d.root
	for token := range strings.SplitSeq(strings.TrimPrefix(pointer, "#/"), "/") {
		fields, _ := v.(map[string]any)
		v = fields[strings.NewReplacer("~1", "/", "~0", "~").Replace(token)]
	}
	return v
}

// headersSchema accepts the schema of headers: it must be an object with properties.
func headersSchema(d *specified, path string, v any) {
	schemaObject(d, path, v)
	fields, _ := v.(map[string]any)
	if _, ok := fields["properties"].(map[string]any); !ok || fields["type"] != "object" {
		d.fault(path, "must be the schema of an object with properties")
	}
}

// schemaObject accepts a schema of draft 7 of JSON Schema. A keyword of a later draft has no effect there, and nor have
// keywords beside $ref.
func schemaObject(d *specified, path string, v any) {
	if _, ok := v.(bool); ok {
		return
	}
	fields, ok := v.(map[string]any)
	if !ok {
		d.fault(path, "must be a schema, is %T", v)
		return
	}
	if _, ok := fields["$ref"]; ok {
		refTo("#/components/schemas/")(d, path, v)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if extension.MatchString(name) {
			continue
		}
		if keyword(name) == nil {
			d.fault(path, "%q is no keyword of draft 7", name)
		} else {
			keyword(name)(d, path+"/"+name, fields[name])
		}
	}
	d.requiredExist(path, fields)
}

// keyword returns the check of a keyword, nil for an unknown one. The keywords are those that a description of a
// message needs.
func keyword(name string) check {
	switch name {
	case "title", "description", "format", "contentEncoding", "contentMediaType":
		return text
	case "pattern":
		return pattern
	case "type":
		return types
	case "enum", "examples":
		return listOf(func(*specified, string, any) {})
	case "required":
		return listOf(text)
	case "properties":
		return properties
	case "items", "additionalProperties", "not", "contains", "propertyNames":
		return schemaObject
	case "allOf", "anyOf", "oneOf":
		return listOf(schemaObject)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems":
		return number
	case "default", "const":
		return func(*specified, string, any) {}
	}
	return nil
}

// types accepts the name of a type or a list of names.
func types(d *specified, path string, v any) {
	name := matching(regexp.MustCompile("^(null|boolean|object|array|number|integer|string)$"))
	if _, ok := v.([]any); ok {
		listOf(name)(d, path, v)
		return
	}
	name(d, path, v)
}

func properties(d *specified, path string, v any) {
	all, ok := v.(map[string]any)
	if !ok {
		d.fault(path, "must be an object, is %T", v)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		schemaObject(d, path+"/"+name, all[name])
	}
}

func pattern(d *specified, path string, v any) {
	s, _ := v.(string)
	if _, err := regexp.Compile(s); err != nil || s == "" {
		d.fault(path, "invalid pattern %v", v)
	}
}

func number(d *specified, path string, v any) {
	if _, ok := v.(float64); !ok {
		d.fault(path, "must be a number, is %T", v)
	}
}

// requiredExist reports required properties that the schema does not describe, and those that it names twice.
func (d *specified) requiredExist(path string, fields map[string]any) {
	all, _ := fields["properties"].(map[string]any)
	required, _ := fields["required"].([]any)
	seen := map[any]bool{}
	for _, name := range required {
		if s, ok := name.(string); !ok || all[s] == nil || seen[name] {
			d.fault(path, "requires %v, which is no property or required twice", name)
		}
		seen[name] = true
	}
}

// rules reports violations of the rules that join several objects: the messages of an operation and of its reply belong to
// their channels, and the parameters of a channel to its address.
func (d *specified) rules() {
	operations, _ := d.root["operations"].(map[string]any)
	for name, o := range operations {
		path := "/operations/" + name
		fields, _ := o.(map[string]any)
		d.messagesOfChannel(path, fields)
		if reply, ok := fields["reply"].(map[string]any); ok {
			d.messagesOfChannel(path+"/reply", reply)
		}
	}
	channels, _ := d.root["channels"].(map[string]any)
	for name, c := range channels {
		fields, _ := c.(map[string]any)
		address, _ := fields["address"].(string)
		var want []string
		for _, found := range regexp.MustCompile(`{([^}]*)}`).FindAllStringSubmatch(address, -1) {
			want = append(want, found[1])
		}
		parameters, _ := fields["parameters"].(map[string]any)
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(parameters)); !slices.Equal(got, want) {
			d.fault("/channels/"+name, "has the parameters %v, its address %v", got, want)
		}
	}
	slices.Sort(d.faults)
}

func (d *specified) messagesOfChannel(path string, fields map[string]any) {
	c, _ := fields["channel"].(map[string]any)
	messages, _ := fields["messages"].([]any)
	for _, m := range messages {
		target, _ := m.(map[string]any)["$ref"].(string)
		if prefix := fmt.Sprint(c["$ref"], "/messages/"); !strings.HasPrefix(target, prefix) {
			d.fault(path, "message %s is not one of the channel %v", target, c["$ref"])
		}
	}
}

// violations returns the violations of the AsyncAPI 3.0 specification in a document.
func violations(t *testing.T, document []byte) []string {
	t.Helper()
	var d specified
	if err := json.Unmarshal(document, &d.root); err != nil {
		t.Fatal(err)
	}
	rootObject.check(&d, "", d.root)
	d.rules()
	return d.faults
}

// TestAsyncAPIFollowsTheSpecification checks the document by the text of the specification. The checks share no code with
// the generator of the document.
func TestAsyncAPIFollowsTheSpecification(t *testing.T) {
	t.Parallel()
	document, err := schema.AsyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range violations(t, document) {
		t.Error(fault)
	}
}

// TestSpecificationFindsViolations changes the document and expects a violation at the place of the change.
func TestSpecificationFindsViolations(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	document, err := schema.AsyncAPI()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ old, changed, path string }{
		{`"asyncapi":"3.0.0"`, `"asyncapi":"2.6.0"`, "/asyncapi: "},
		{`"asyncapi":"3.0.0",`, `"asyncapi":"3.0.0","message":{},`, `: unknown field "message"`},
		{`"title":"Debrief",`, ``, `/info: has no field "title"`},
		{`"license":{"name"`, `"license":{"nam"`, "/info/license: "},
		{`"defaultContentType":"application/msgpack"`, `"defaultContentType":"MessagePack"`, "/defaultContentType: "},
		{`"address":null`, `"address":7`, "/channels/reply/address: "},
		{`"address":"debrief.edit.{book}"`, `"address":"debrief.edit.{name}"`, "/channels/edit: has the parameters"},
		{`"action":"receive"`, `"action":"publish"`, "/operations/receive-context-request/action: "},
		{`"$ref":"#/channels/edit/messages/edit"`, `"$ref":"#/channels/task/messages/task"`, "/operations/receive-edit: message"},
		{`"$ref":"#/channels/edit"`, `"$ref":"#/channels/editt"`, "/operations/receive-edit/channel: "},
		{`"location":"$message.header#/`, `"location":"$message.head#/`, "/operations/receive-edit/reply/address/location: "},
		{`{"$ref":"#/components/messages/delta"}`, `{"$ref":"#/components/messages/delta","summary":"x"}`, "/channels/delta/messages/delta: "},
		{`"$ref":"#/components/schemas/Delta"`, `"$ref":"#/components/schemas/Deltas"`, "/components/messages/delta/payload: "},
		{`"contentEncoding":"base64"`, `"prefixItems":[]`, `"prefixItems" is no keyword of draft 7`},
		{`"type":"integer"`, `"type":"int"`, "/type: must match"},
		{`"examples":[{"headers"`, `"examples":[{"header"`, "/components/messages/task-json/examples/0: unknown field"},
		{`"required":["run_id","question"]`, `"required":["run_id","qestion"]`, "requires qestion"},
	} {
		changed := strings.Replace(string(document), row.old, row.changed, 1)
		if changed == string(document) {
			t.Errorf("the document does not have %s", row.old)
		}
		found := violations(t, []byte(changed))
		if !slices.ContainsFunc(found, func(fault string) bool { return strings.Contains(fault, row.path) }) {
			t.Errorf("%s: found %q, want one with %q", row.changed, found, row.path)
		}
	}
}

package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"debrief/events/schema"
	"debrief/events/service"
)

// object is a JSON object of the OpenAPI document.
type object = map[string]any

// schemaRefs is the prefix of the references to schemas in the document.
const schemaRefs = "#/components/schemas/"

// openAPI returns the OpenAPI 3.1 document of the routes.
func openAPI(routes []route) ([]byte, error) {
	requests, replies := schema.NewRequests(schemaRefs, "Input"), schema.NewReplies(schemaRefs) // names of request schemas end with Input
	paths := map[string]object{}
	for i := range routes {
		r := &routes[i]
		if paths[prefix+r.path] == nil {
			paths[prefix+r.path] = object{}
		}
		paths[prefix+r.path][strings.ToLower(r.method)] = r.operation(requests, replies)
	}
	problem := replies.Of(reflect.TypeFor[Problem]()) // adds to the definitions of replies
	schemas := maps.Clone(requests.Definitions())
	maps.Copy(schemas, replies.Definitions())
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Debrief", "version": service.Version,
			"description": "Contexts, executions and feedback of agents, playbooks, and their operation. Without tokens the server accepts only requests on loopback, and needs no authorization.",
		},
		"jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
		"security":          []object{{"token": []string{}}, {}},
		"paths":             paths,
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer", "description": "Secret of a named token."}},
			"responses": object{"Problem": object{
				"description": "An error (RFC 9457).", "content": object{"application/problem+json": object{"schema": problem}},
			}},
		},
	})
}

// operation describes a route.
func (r *route) operation(requests, replies *schema.Types) object {
	op := object{"operationId": r.name, "summary": r.summary, "parameters": r.parameters()}
	if r.scope != "" {
		op["description"] = fmt.Sprintf("A token needs the scope %s.", r.scope)
	}
	if r.in != nil {
		content := object{"schema": requests.Of(r.in)}
		if r.example.body != "" {
			content["example"] = json.RawMessage(r.example.body)
		}
		op["requestBody"] = object{"required": !r.optionalBody, "content": object{"application/json": content}}
	}
	reply := &jsonschema.Schema{}
	if r.out != nil {
		reply = replies.Of(r.out)
	}
	responses := object{"default": object{"$ref": "#/components/responses/Problem"}}
	success := object{"description": "Success.", "content": object{"application/json": object{"schema": reply}}}
	if r.stream != nil {
		success["content"] = object{"text/event-stream": object{"schema": object{"type": "string"}}}
	}
	responses[strconv.Itoa(r.status)] = success
	if r.status == http.StatusCreated || r.status == http.StatusAccepted {
		responses["200"] = object{"description": "It was there before, or the request changed nothing.", "content": success["content"]}
	}
	op["responses"] = responses
	return op
}

// parameters describes the parameters of a route: those of the path, the query and the headers.
func (r *route) parameters() []object {
	all := []object{}
	for segment := range strings.SplitSeq(r.path, "/") {
		if name, ok := parameterName(segment); ok {
			all = append(all, object{
				"name": name, "in": "path", "required": true, "description": pathDocs[name], "schema": object{"type": "string"}, "example": r.example.path[name],
			})
		}
	}
	for _, p := range r.query {
		s := object{"type": p.kind}
		if p.values != nil {
			s["enum"] = p.values
		}
		all = append(all, object{"name": p.name, "in": "query", "description": p.doc, "schema": s})
	}
	if r.in != nil {
		all = append(all, object{"name": strictParameter.name, "in": "query", "description": strictParameter.doc, "schema": object{"enum": booleans}})
	}
	if r.idempotent {
		all = append(all, object{"name": "Idempotency-Key", "in": "header", "description": "Id of the request: a repeated one has no further effect.", "schema": object{"type": "string", "maxLength": maxKey}})
	}
	return all
}

// pathDocs describe the parameters of paths.
var pathDocs = map[string]string{
	"book": "Name of the playbook.", "id": "Id of the bullet, run or dead letter.", "version": "Number, label, time, duration or name of a version, or newest.",
	"handle": "Handle of the execution.", "session": "Name of the session.", "other": "Id of the other run.",
}

// openAPIRoute serves the document.
func openAPIRoute() route {
	r := get("/openapi.json", "getOpenAPI", "Return this document.", func(c *call) (json.RawMessage, error) {
		return openAPI(c.handler.routes)
	})
	r.scope = ""
	return r
}

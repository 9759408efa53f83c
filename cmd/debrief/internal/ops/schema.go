package ops

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/schema"
)

// Schema prints the schemas of the messages.
type Schema struct {
	Message string `arg:"" optional:"" help:"Name of a message. Default: list all."`
	JSON    bool   `help:"Print the list as one JSON document. Schemas are always JSON."`
}

func (*Schema) Help() string {
	return `List the messages on NATS, or print the JSON Schema of one. The schema describes the value of a message, also if its
encoding is MessagePack: there "x-msgpack" marks times (timestamp) and bytes (bin). The command needs no server.

A task or an edit gets its result, or the reason of its failure, on the inbox in the header Debrief-Reply. The reply subject
of the message gets only the acknowledgement of the stream, also for a message that no worker can decode: that is what 'nats
req' prints. For a request with an answer use POST /api/v1/books/BOOK/tasks?wait=20s of 'debrief up' or the gateway.

Examples:

  debrief schema
  debrief schema task-json
  debrief schema --json`
}

// encodings are the names of the encodings for people.
var encodings = map[string]string{schema.MessagePack: "MessagePack", schema.JSON: "JSON", schema.Text: "text"}

// listedMessage is a message in the JSON of the list.
type listedMessage struct {
	Name        string   `json:"name"`
	Encoding    string   `json:"encoding"`
	Subject     string   `json:"subject,omitempty"`
	Description string   `json:"description"`
	Headers     []string `json:"headers,omitempty"`
	Replies     []string `json:"replies,omitempty"` // names of messages
}

func (s *Schema) Run() error {
	switch {
	case s.Message != "":
		m, ok := schema.Find(s.Message)
		if !ok {
			return program.Exit(program.ExitUsage, fmt.Errorf("MESSAGE: unknown message %q: want %s", s.Message, strings.Join(messageNames(), ", ")))
		}
		enc := json.NewEncoder(term.Stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(m.JSONSchema())
	case s.JSON:
		list := []listedMessage{}
		for _, m := range schema.Messages() {
			list = append(list, listedMessage{
				Name: m.Name, Encoding: m.Encoding, Subject: m.Subject, Description: m.Description, Headers: m.Headers, Replies: m.Replies,
			})
		}
		return cli.WriteJSON(term.Stdout, list)
	}
	return term.PrintTable(term.Stdout, "message\tencoding\tsubject", schema.Messages(), func(w io.Writer, m schema.Message) {
		term.Fprintf(w, "%s\t%s\t%s\n", m.Name, encodings[m.Encoding], cmp.Or(m.Subject, "(reply)"))
	})
}

func messageNames() (names []string) {
	for _, m := range schema.Messages() {
		names = append(names, m.Name)
	}
	return names
}

package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rogpeppe/go-internal/testscript"

	"debrief/events"
	"debrief/events/natsd"

	book "debrief/playbook"
)

// bury stores dead letters about executions, one for each line of a file, which has attempts, whole or cut, and the
// reason: bury ROLE BOOK FILE.
func bury(ts *testscript.TestScript, _ bool, args []string) {
	nc, err := nats.Connect(serverURL(ts))
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	dead, err := js.Stream(context.Background(), events.StreamDead)
	ts.Check(err)
	seq := 100 + dead.CachedInfo().State.LastSeq // another message for each letter
	for line := range strings.Lines(ts.ReadFile(args[2])) {
		seq++
		attempts, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		form, reason, _ := strings.Cut(rest, " ")
		x := &events.Execution{Book: book.Book(args[1]), RunID: string(events.NewID()), Question: "What is it?", Answer: "A \x1b[31mred\u202e one."}
		x.ID = events.ExecutionID(x.Book, "", x.RunID, 0)
		subject, header, data, err := events.Encode(x)
		ts.Check(err)
		if form == "cut" {
			data = data[:len(data)/2]
		}
		l := &events.DeadLetter{
			Role: args[0], Code: events.DeadError, Reason: reason, Stream: events.StreamExecutions, Seq: seq,
			Subject: subject, Header: header, Data: data, Time: time.Now().UTC(),
		}
		_, err = fmt.Sscan(attempts, &l.Attempts)
		ts.Check(err)
		l.Book = x.Book
		subject, header, data, err = events.Encode(l)
		ts.Check(err)
		_, err = js.PublishMsg(context.Background(), &nats.Msg{Subject: subject, Header: header, Data: data})
		ts.Check(err)
	}
}

// letter sets a variable to the id of the letter at a place: letter 1 NAME.
func letter(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(ts.Exec("debrief", "dead", "--data", ts.Getenv("DATA")))
	id := regexp.MustCompile(`(?m)^` + args[0] + `-[0-9a-f]{8}\b`).FindString(ts.ReadFile("stdout"))
	if id == "" {
		ts.Fatalf("no letter at %s", args[0])
	}
	ts.Setenv(args[1], id)
}

// damage writes a copy of a backup that has one bit turned, lacks a file, or names a file outside: damage flip|lose|slip FROM TO.
func damage(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[2])
	ts.Check(os.RemoveAll(dir))
	ts.Check(os.CopyFS(dir, os.DirFS(ts.MkAbs(args[1]))))
	data, manifest := dir+"/DELTAS/stream.arc.s2", dir+"/manifest.json"
	switch args[0] {
	case "flip":
		text := []byte(ts.ReadFile(data))
		text[len(text)/2] ^= 1
		ts.Check(os.WriteFile(data, text, 0o600))
	case "lose":
		ts.Check(os.Remove(data))
	case "slip":
		text := strings.Replace(ts.ReadFile(manifest), `"DELTAS"`, `"../../evil"`, 1)
		ts.Check(os.WriteFile(manifest, []byte(text), 0o600))
	}
}

// natsServer starts a server without streams and sets a variable to its address: natsserver ADDR.
func natsServer(ts *testscript.TestScript, _ bool, args []string) {
	s, err := natsd.Start(natsd.Config{Listen: "127.0.0.1:0"})
	ts.Check(err)
	ts.Defer(s.Close)
	ts.Setenv(args[0], strings.TrimPrefix(s.URL(), "nats://"))
}

// noStreams fails if a server has a stream: nostreams nats://127.0.0.1:4222.
func noStreams(ts *testscript.TestScript, _ bool, args []string) {
	nc, err := nats.Connect(args[0])
	ts.Check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	ts.Check(err)
	for name := range js.StreamNames(context.Background()).Name() {
		ts.Fatalf("stream %s exists", name)
	}
}

package auditor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Message is one stored message.
type Message struct {
	Seq     uint64
	Subject string
	Header  nats.Header
	Data    []byte
}

// last is the last token of the subject.
func (m *Message) last() string { return m.Subject[strings.LastIndexByte(m.Subject, '.')+1:] }

// Streams holds every message of the streams that the audit reads, in the order of their sequences.
type Streams struct {
	Tasks, Executions, Reflections, Deltas, Dead, View []Message
}

// Read reads the streams with ordered consumers. No process may write during that.
func Read(ctx context.Context, js jetstream.JetStream) (*Streams, error) {
	s := new(Streams)
	var errs []error
	for name, to := range map[string]*[]Message{
		"TASKS": &s.Tasks, "EXECUTIONS": &s.Executions, "REFLECTIONS": &s.Reflections, "DELTAS": &s.Deltas, "DEAD": &s.Dead, "KV_playbook": &s.View,
	} {
		all, err := readStream(ctx, js, name)
		if err != nil {
			errs = append(errs, fmt.Errorf("read stream %s: %w", name, err))
		}
		*to = all
	}
	return s, errors.Join(errs...)
}

func readStream(ctx context.Context, js jetstream.JetStream, name string) ([]Message, error) {
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return nil, err
	}
	if info.Config.Retention == jetstream.WorkQueuePolicy { // allows no second consumer
		return readOneByOne(ctx, stream, info.State.FirstSeq, info.State.LastSeq)
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return nil, err
	}
	defer messages.Stop()
	all := make([]Message, 0, info.State.Msgs)
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		all = append(all, Message{Seq: meta.Sequence.Stream, Subject: m.Subject(), Header: m.Headers(), Data: m.Data()})
		if meta.NumPending == 0 {
			return all, nil
		}
	}
}

func readOneByOne(ctx context.Context, stream jetstream.Stream, from, to uint64) (all []Message, err error) {
	for seq := from; seq <= to; seq++ {
		m, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, Message{Seq: m.Sequence, Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	return all, nil
}

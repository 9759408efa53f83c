package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/train"
)

const (
	publishers  = 16      // goroutines that send samples
	rawStages   = 3       // each with a stream; the last one publishes to a fourth
	rawSlots    = 64      // messages of a stage in progress, as many as a role in the bench has slots
	rawBatch    = 64      // messages of one batch of the last stage
	messageSize = 4 << 10 // bytes
)

// rawRate measures JetStream alone with the messages of the pipeline: three streams, one after the other, each message of 4 KB pulled,
// acknowledged and published to the next stream. The last stage publishes one message for each batch, as Curators commit batches.
func rawRate(ctx context.Context, flush string, samples int, log zerolog.Logger) (float64, error) {
	server, err := cli.ServerFlags{NATS: program.NATS{Replicas: 1}}.StartTemporary(ctx, flush, log)
	if err != nil {
		return 0, err
	}
	defer server.Close()
	js := server.JetStream()
	stages := make([]jetstream.Consumer, rawStages)
	for i := range stages {
		if stages[i], err = rawStage(ctx, js, i); err != nil {
			return 0, err
		}
	}
	if _, err := js.CreateStream(ctx, rawStream(rawStages)); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	var left atomic.Int64
	left.Store(int64(samples))
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel(nil) // runs before all.Wait
	for i := range stages[:rawStages-1] {
		for range rawSlots {
			if err := forward(ctx, cancel, js, stages[i], i+1); err != nil {
				return 0, err
			}
		}
	}
	all.Go(func() {
		cancelOn(cancel, forwardBatches(ctx, js, stages[rawStages-1], func(n int) {
			if left.Add(int64(-n)) == 0 {
				close(done)
			}
		}))
	})
	payload := make([]byte, messageSize)
	began := time.Now()
	err = train.Each(samples, publishers, func(int) error {
		_, err := js.Publish(ctx, rawSubject(0), payload)
		return err
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil { // the error of a stage, which has cancelled the publishing
			err = cause
		}
		return 0, err
	}
	select {
	case <-done:
		return float64(samples) / time.Since(began).Seconds(), nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func rawSubject(stage int) string { return fmt.Sprint("raw.", stage) }

func rawStream(stage int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: fmt.Sprint("RAW", stage), Subjects: []string{rawSubject(stage)}, Storage: jetstream.FileStorage, Duplicates: 2 * time.Minute,
	}
}

// rawStage creates the stream of a stage, and a consumer of it.
func rawStage(ctx context.Context, js jetstream.JetStream, stage int) (jetstream.Consumer, error) {
	s, err := js.CreateStream(ctx, rawStream(stage))
	if err != nil {
		return nil, err
	}
	return s.CreateConsumer(ctx, jetstream.ConsumerConfig{Durable: "raw", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 4 * rawSlots})
}

// cancelOn cancels with an error, unless that is the cancellation itself.
func cancelOn(cancel context.CancelCauseFunc, err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		cancel(err)
	}
}

// forward publishes each message of a stage to the next one and acknowledges it, until ctx ends. An error cancels ctx.
func forward(ctx context.Context, cancel context.CancelCauseFunc, js jetstream.JetStream, from jetstream.Consumer, to int) error {
	consuming, err := from.Consume(func(m jetstream.Msg) {
		_, err := js.Publish(ctx, rawSubject(to), m.Data())
		if err == nil {
			err = m.Ack()
		}
		cancelOn(cancel, err)
	}, jetstream.PullMaxMessages(1))
	if err == nil {
		context.AfterFunc(ctx, consuming.Stop)
	}
	return err
}

// forwardBatches publishes one message for each batch of the last stage and acknowledges the batch, until ctx ends.
func forwardBatches(ctx context.Context, js jetstream.JetStream, from jetstream.Consumer, handled func(n int)) error {
	for ctx.Err() == nil {
		batch, err := from.Fetch(rawBatch, jetstream.FetchMaxWait(100*time.Millisecond))
		if err != nil {
			return err
		}
		var pulled []jetstream.Msg
		for m := range batch.Messages() {
			pulled = append(pulled, m)
		}
		if len(pulled) == 0 {
			continue
		}
		if _, err := js.Publish(ctx, rawSubject(rawStages), pulled[0].Data()); err != nil {
			return err
		}
		for _, m := range pulled {
			if err := m.Ack(); err != nil {
				return err
			}
		}
		handled(len(pulled))
	}
	return nil
}

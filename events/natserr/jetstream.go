package natserr

import (
	"context"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// watchedJetStream is a JetStream whose methods in this file make their requests to the server through Call. Call recognizes a denied request by
// its subject, or by the name of the stream, which is a part of the subject. The other methods, and the streams and consumers that it returns, do
// not use Call.
type watchedJetStream struct {
	jetstream.JetStream
	w *Watch
}

// JetStream returns a JetStream whose methods return a DeniedError if the server denies their request, see watchedJetStream for the exceptions.
func JetStream(js jetstream.JetStream, w *Watch) jetstream.JetStream { return &watchedJetStream{js, w} }

// WatchOf returns the Watch of a JetStream, or nil if it has none.
func WatchOf(js jetstream.JetStream) *Watch {
	if j, ok := js.(*watchedJetStream); ok {
		return j.w
	}
	return nil
}

func (j *watchedJetStream) Publish(ctx context.Context, subject string, data []byte, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return j.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: data}, opts...)
}

func (j *watchedJetStream) PublishMsg(ctx context.Context, m *nats.Msg, opts ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	return Call(ctx, j.w, m.Subject, func(ctx context.Context) (*jetstream.PubAck, error) {
		return j.JetStream.PublishMsg(ctx, m, opts...)
	})
}

func (j *watchedJetStream) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	return Call(ctx, j.w, name, func(ctx context.Context) (jetstream.Stream, error) { return j.JetStream.Stream(ctx, name) })
}

func (j *watchedJetStream) CreateStream(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	return Call(ctx, j.w, cfg.Name, func(ctx context.Context) (jetstream.Stream, error) { return j.JetStream.CreateStream(ctx, cfg) })
}

func (j *watchedJetStream) Consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	return Call(ctx, j.w, stream, func(ctx context.Context) (jetstream.Consumer, error) { return j.JetStream.Consumer(ctx, stream, name) })
}

func (j *watchedJetStream) CreateOrUpdateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return Call(ctx, j.w, stream, func(ctx context.Context) (jetstream.Consumer, error) {
		return j.JetStream.CreateOrUpdateConsumer(ctx, stream, cfg)
	})
}

func (j *watchedJetStream) UpdateConsumer(ctx context.Context, stream string, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	return Call(ctx, j.w, stream, func(ctx context.Context) (jetstream.Consumer, error) {
		return j.JetStream.UpdateConsumer(ctx, stream, cfg)
	})
}

func (j *watchedJetStream) OrderedConsumer(ctx context.Context, stream string, cfg jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	return Call(ctx, j.w, stream, func(ctx context.Context) (jetstream.Consumer, error) {
		return j.JetStream.OrderedConsumer(ctx, stream, cfg)
	})
}

func (j *watchedJetStream) KeyValue(ctx context.Context, bucket string) (jetstream.KeyValue, error) {
	return Call(ctx, j.w, "KV_"+bucket, func(ctx context.Context) (jetstream.KeyValue, error) { return j.JetStream.KeyValue(ctx, bucket) })
}

func (j *watchedJetStream) ObjectStore(ctx context.Context, bucket string) (jetstream.ObjectStore, error) {
	return Call(ctx, j.w, "OBJ_"+bucket, func(ctx context.Context) (jetstream.ObjectStore, error) {
		return j.JetStream.ObjectStore(ctx, bucket)
	})
}

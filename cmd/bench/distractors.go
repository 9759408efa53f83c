package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/simulated/worlds"
	"debrief/events"
	"debrief/generator"

	book "debrief/playbook"
)

// distractorsPart measures the selection: rules by hand among distractors.
var distractorsPart = part{
	name: "distractors", title: "deciding rules in the prompt; rules by hand among distractors",
	arms: []string{"perfect", "votes-only"}, tasks: 1000, quick: 200,
	columns: []column{
		{statedInPromptKey, "in prompt", percentInterval},
		{completeKey, "tasks with all", percent},
		{accuracyKey, "accuracy", percent},
		{bulletsKey, "bullets", count},
		{inPromptKey, "shown", number1},
		{promptTokensKey, "tokens", count},
	},
	imperfection: worlds.Default(), run: runDistractors,
}

// checkpoints returns the numbers of training tasks after which the distractors are added, or after which the prompts are measured.
func (m *measurement) checkpoints() []int {
	return slices.DeleteFunc([]int{0, 200, 1000}, func(n int) bool { return n > m.tasks })
}

// maxEmbedded is the maximum number of training tasks before a measurement with embeddings. Its goal does not depend on that number, so
// more tasks would only take time.
const maxEmbedded = 200

// runDistractors measures all cases of one arm and seed. The cases with distractors after the tasks are about the selection alone, so they
// run only in the arm votes-only, which adds no lessons.
func runDistractors(ctx context.Context, m *measurement, r *run, log zerolog.Logger) (points []*point, err error) {
	if r.arm.votesOnly {
		for _, tasks := range m.checkpoints() {
			more, err := crowd(ctx, m, r, tasks, log)
			if err != nil {
				return nil, err
			}
			points = append(points, more...)
		}
	}
	for _, n := range m.distractors {
		if n == 0 || n > maxCrowd {
			continue
		}
		more, err := crowdedFromStart(ctx, m, r, n, log)
		if err != nil {
			return nil, err
		}
		points = append(points, more...)
	}
	return points, nil
}

// maxCrowd is the maximum number of distractors that an agent learns among.
const maxCrowd = 2000

// crowdedFromStart imports the rules by hand and n distractors in one section and in random order, and then answers tasks. A rule that no
// prompt shows is then never cited. It measures the prompts of held-out tasks before the tasks and after some of them.
func crowdedFromStart(ctx context.Context, m *measurement, of *run, n int, log zerolog.Logger) (points []*point, err error) {
	empty := *of.arm
	empty.byHand = false
	r, err := startRunner(ctx, &run{world: of.world, arm: &empty, seed: of.seed}, m, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	texts := append(r.world.ByHand(0), r.world.Distractors(n)...)
	rand.New(rand.NewPCG(of.seed, 0x63726f7764)).Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	if err := r.importBullets(ctx, texts, 0); err != nil {
		return nil, err
	}
	for _, tasks := range m.checkpoints() {
		if err := r.learn(ctx, tasks); err != nil { // so many in all, not so many more
			return nil, err
		}
		p, err := r.measure(ctx, r.builder, fmt.Sprintf("%d distractors from the start, words, after %d tasks", n, tasks))
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, nil
}

// crowd answers tasks with the rules by hand, and then adds distractors and measures the prompts of held-out tasks.
func crowd(ctx context.Context, m *measurement, of *run, tasks int, log zerolog.Logger) (points []*point, err error) {
	r, err := startRunner(ctx, of, m, log)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.learn(ctx, tasks); err != nil {
		return nil, err
	}
	builders := map[string]*generator.ContextBuilder{}
	for name, embedder := range map[string]generator.Embedder{"words": nil, "embeddings": worldEmbedder{r.world}} {
		if embedder != nil && tasks > maxEmbedded {
			continue
		}
		// With one connection for all, reads of large playbooks by the builders would delay the reads of the roles by seconds.
		conn, err := r.session.NewConn(ctx, log)
		if err != nil {
			return nil, err
		}
		defer conn.NATS().Close()
		builders[name] = generator.NewContextBuilder(conn, embedder, generator.Config{})
		defer builders[name].Close()
	}
	all := r.world.Distractors(slices.Max(append([]int{0}, m.distractors...)))
	done := 0
	for _, n := range slices.Sorted(slices.Values(m.distractors)) {
		if err := r.importBullets(ctx, all[done:n], done); err != nil {
			return nil, err
		}
		done = n
		for _, name := range slices.Sorted(maps.Keys(builders)) {
			p, err := r.measure(ctx, builders[name], fmt.Sprintf("%d distractors, %s, after %d tasks", n, name, tasks))
			if err != nil {
				return nil, err
			}
			points = append(points, p)
		}
	}
	return points, nil
}

// importBullets imports bullets like 'debrief playbook import'. Their numbers begin after first.
func (r *runner) importBullets(ctx context.Context, texts []string, first int) error {
	ops := make([]book.Op, len(texts))
	for i, text := range texts {
		b := &book.Bullet{ID: book.BulletID(fmt.Sprintf("imp-%05d", first+i+1)), Section: "imported", Content: text, Status: book.Active}
		ops[i] = book.Op{Kind: book.Put, Bullet: b.ID, PutBullet: b}
	}
	for part := range slices.Chunk(ops, request.PerEdit) {
		if err := r.edit(ctx, &events.Edit{Ops: part}); err != nil {
			return err
		}
	}
	return nil
}

// measure evaluates the held-out tasks with a builder that has indexed the playbook.
func (r *runner) measure(ctx context.Context, builder *generator.ContextBuilder, label string) (*point, error) {
	if err := r.warmUp(ctx, builder); err != nil {
		return nil, err
	}
	p, err := r.evaluateOn(ctx, builder, r.world.HeldOut(0, r.measurement.heldOut))
	if err == nil {
		p.label = label
	}
	return p, err
}

// warmUpTimeout bounds the time in which a context builder indexes a playbook.
const warmUpTimeout = 2 * time.Minute

// warmUp waits until the contexts of a builder have no warnings, such as about missing embeddings.
func (r *runner) warmUp(ctx context.Context, builder *generator.ContextBuilder) error {
	req := r.request(&r.world.HeldOut(0, 1)[0])
	req.DryRun = true
	for began := time.Now(); ; {
		served, err := builder.Context(ctx, req)
		if err == nil && !served.Stale && len(served.Manifest.Warnings) == 0 {
			return nil
		}
		if time.Since(began) > warmUpTimeout {
			if err == nil {
				err = errors.New(strings.Join(append(served.Manifest.Warnings, fmt.Sprintf("stale: %t", served.Stale)), "; "))
			}
			return fmt.Errorf("request a context without warnings for %s: %w", warmUpTimeout, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

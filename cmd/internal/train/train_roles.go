package train

import (
	"context"
	"errors"
	"fmt"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/simulated"
	"debrief/curator"
	"debrief/events"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/generator/scoring"
	"debrief/reflector"
)

// models returns the settings of the models. For --simulated it starts the simulated model.
func (p *Training) models(ctx context.Context) (program.Model, error) {
	if p.Simulated {
		return Simulate(ctx, p.Model, simulated.Options{Seed: 1, Latency: p.Latency})
	}
	return p.Model, nil
}

// newReflector returns the Reflector of this process. Without a model it reflects by rules.
func (p *Training) newReflector(models program.Model) (*reflector.Reflector, error) {
	model, err := models.Optional(events.RoleReflector)
	if err != nil {
		return nil, err
	}
	cfg, err := p.ReflectorConfig.Settings()
	if err != nil {
		return nil, err
	}
	return reflector.New(model, cfg)
}

// roles returns the roles to run in this process. The Curator has no model if curatorModel is nil.
func (p *Training) roles(models program.Model, reflects *reflector.Reflector, curatorModel chat.Model) ([]program.Role, error) {
	generatorModel, err := models.Optional(events.RoleGenerator)
	if err != nil {
		return nil, err
	}
	if generatorModel == nil && p.Dataset != "" {
		return nil, program.Exit(program.ExitUsage, errors.New("model required: set --model, use the simulated one with --simulated, or use the workers of a server with --nats"))
	}
	embedder, err := p.Embedder(models)
	if err != nil {
		return nil, err
	}
	generatorConfig, err := p.GeneratorConfig.Settings()
	if err != nil {
		return nil, err
	}
	generatorConfig.ModelName = models.NameOf(events.RoleGenerator)
	judge, err := models.Judge()
	if err != nil {
		return nil, err
	}
	generatorConfig.Scorer = scoring.NewScorer(p.Evaluators.Settings(), generatorConfig.Slots).WithModel(judge)
	if err := generatorConfig.Scorer.Check(p.Evaluator); err != nil && p.Dataset != "" {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("--evaluator: %w", err))
	}
	generatorRole, err := generator.New(generatorModel, embedder, generatorConfig)
	if err != nil {
		return nil, err
	}
	curatorRole, err := curator.New(curatorModel, p.CuratorConfig.Settings(""))
	if err != nil {
		return nil, err
	}
	return []program.Role{generatorRole, reflects, curatorRole}, nil
}

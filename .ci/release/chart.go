package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// makeChart writes the Helm chart. Its templates are the objects of deploy/kubernetes/base, as kustomize renders them, with
// values in place of images, numbers, settings and the namespace. It creates no Secrets: their files come from 'debrief
// credentials', and the chart has the kustomization that makes Secrets of them. The names of the objects do not depend on
// the release, so a namespace can have only one release.
func makeChart(b *build) error {
	entries, err := directory(filepath.Join(b.root, ".ci/release/chart"), "debrief")
	if err != nil {
		return err
	}
	objects, err := b.renderBase()
	if err != nil {
		return err
	}
	for _, o := range objects {
		name := strings.ToLower(o.str("kind")) + "-" + o.at("metadata").str("name")
		text, err := template(o)
		if err != nil {
			return err
		}
		if text != "" {
			entries = append(entries, entry{name: "debrief/templates/" + name + ".yaml", data: []byte(text), mode: 0o644})
		}
	}
	values, err := b.values()
	if err != nil {
		return err
	}
	secrets, err := os.ReadFile(filepath.Join(b.root, "deploy/secrets/kustomization.yaml"))
	if err != nil {
		return err
	}
	info, err := yaml.Marshal(object{
		"apiVersion": "v2", "name": "debrief", "version": b.version, "appVersion": b.version, "type": "application", "kubeVersion": ">=1.21.0-0",
		"description": "Let LLM agents learn from their runs", "home": b.home.homepage,
	})
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e entry) bool { return e.name == "debrief/values.yaml" })
	entries = append(entries,
		entry{name: "debrief/Chart.yaml", data: info, mode: 0o644},
		entry{name: "debrief/values.yaml", data: values, mode: 0o644},
		entry{name: "debrief/secrets/kustomization.yaml", data: append(secrets, []byte(noHashes)...), mode: 0o644},
		entry{name: "debrief/LICENSE", source: filepath.Join(b.root, "LICENSE"), mode: 0o644})
	return writeTar(filepath.Join(b.out, "debrief-chart-"+b.version+".tgz"), entries, b.time)
}

// values returns values.yaml, which ends with the key of the settings, with the settings of the base.
func (b *build) values() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(b.root, ".ci/release/chart/values.yaml"))
	if err != nil {
		return nil, err
	}
	settings, err := os.ReadFile(filepath.Join(b.root, "deploy/kubernetes/base/settings.env"))
	if err != nil {
		return nil, err
	}
	all := strings.Replace(string(text), "REGISTRY", b.home.registry, 1)
	for line := range strings.Lines(string(settings)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "#") {
			all += "  " + line + "\n"
		} else if key, value, ok := strings.Cut(line, "="); ok {
			all += fmt.Sprintf("  %s: %q\n", key, value)
		}
	}
	return []byte(all), nil
}

// noHashes makes kustomize keep the names of ConfigMaps and Secrets. Helm restarts pods by checksums instead.
const noHashes = "\ngeneratorOptions: {disableNameSuffixHash: true}\n"

// renderBase renders a copy of deploy/ with empty files in place of keys.
func (b *build) renderBase() (all []object, err error) {
	dir := filepath.Join(b.stage, "deploy")
	for _, name := range []string{"kubernetes", "nats", "secrets"} {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(b.root, "deploy", name))); err != nil {
			return nil, err
		}
	}
	var secrets struct {
		Generators []struct{ Files []string } `yaml:"secretGenerator"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "secrets/kustomization.yaml"))
	if err := errors.Join(err, yaml.Unmarshal(text, &secrets), os.MkdirAll(filepath.Join(dir, "secrets/debrief"), 0o755)); err != nil {
		return nil, err
	}
	for _, g := range secrets.Generators {
		for _, file := range g.Files {
			name := file[strings.Index(file, "=")+1:]
			if err := os.WriteFile(filepath.Join(dir, "secrets", name), nil, 0o600); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range []string{"secrets", "nats", "kubernetes/base"} {
		file := filepath.Join(dir, name, "kustomization.yaml")
		text, err := os.ReadFile(file)
		if err := errors.Join(err, os.WriteFile(file, append(text, []byte(noHashes)...), 0o600)); err != nil {
			return nil, err
		}
	}
	base := filepath.Join(dir, "kubernetes/base")
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), base)
	if err != nil {
		return nil, err
	}
	for _, r := range rendered.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return nil, err
		}
		o := object{}
		if err := yaml.Unmarshal(text, &o); err != nil {
			return nil, err
		}
		all = append(all, o)
	}
	return all, nil
}

// object is a decoded YAML object. The objects inside it have this type too.
type object map[string]any

// at returns the object at a path of keys, or an empty one that is not part of o.
func (o object) at(path ...string) object {
	for _, key := range path {
		next, ok := o[key].(object)
		if !ok {
			return object{}
		}
		o = next
	}
	return o
}

func (o object) str(key string) string { s, _ := o[key].(string); return s }

// first returns the first element of a list of objects.
func (o object) first(key string) object {
	list, _ := o[key].([]any)
	if len(list) == 0 {
		return object{}
	}
	return list[0].(object)
}

// action returns a string that becomes an action of the template.
func action(text string) string { return "@@" + text + "@@" }

// marked matches an action in YAML, with the quotes if it is a whole value.
var marked = regexp.MustCompile(`'@@([^\n]*?)@@'|@@([^\n]*?)@@`)

// single is true in the template for one server.
const single = "(eq (int .Values.servers) 1)"

// singleStorage is the volume of a single server, at least max_file of deploy/nats/server.conf.
const singleStorage = "64Gi"

// template returns the template of an object, or "" for an object that the chart does not have.
func template(o object) (string, error) {
	metadata := o.at("metadata")
	name := metadata.str("name")
	delete(metadata, "namespace")
	spec := o.at("spec")
	pod := spec.at("template", "spec")
	switch o.str("kind") {
	case "Namespace", "Secret":
		return "", nil
	case "ConfigMap":
		if name == "settings" { // has a separate template
			return "", nil
		}
	case "Deployment":
		spec["replicas"] = action(" .Values.replicas." + name + " ")
		spec.at("template", "metadata")["annotations"] = object{"checksum/settings": action(" toJson .Values.settings | sha256sum ")}
	case "HorizontalPodAutoscaler":
		spec["minReplicas"] = action(" .Values.replicas." + name + " ")
		spec["maxReplicas"] = action(" max .Values.replicas." + name + fmt.Sprintf(" %d ", spec["maxReplicas"]))
	case "Job":
		metadata["name"] = name + "-" + action(" .Release.Revision ") // a Job is immutable, so each revision has one
		args := pod.first("containers")["args"].([]any)
		args[len(args)-1] = action(" .Values.servers | quote ")
	case "StatefulSet":
		spec["replicas"] = action(" .Values.servers ")
		pod.first("containers")["args"].([]any)[1] = "/etc/nats/" + action(` ternary "server" "cluster" `+single+" ") + ".conf"
		pod.at("dnsConfig")["searches"] = []any{"nats." + action(" .Release.Namespace ") + ".svc.cluster.local"}
		requests := spec.first("volumeClaimTemplates").at("spec", "resources", "requests")
		requests["storage"] = action(fmt.Sprintf(" .Values.storage | default (ternary %q %q %s) ", singleStorage, requests["storage"], single))
		spec.at("template", "metadata")["annotations"] = object{
			"checksum/server": action(` include (print $.Template.BasePath "/configmap-server.yaml") . | sha256sum `),
		}
	}
	if container := pod.first("containers"); len(container) > 0 {
		image, _, _ := strings.Cut(container.str("image"), ":")
		container["image"] = action(fmt.Sprintf(` include "debrief.image" (list . %q) `, filepath.Base(image)))
		pod["imagePullSecrets"] = action(" toJson .Values.imagePullSecrets ")
	}
	text, err := yaml.Marshal(o)
	if err != nil {
		return "", err
	}
	if strings.Contains(string(text), "{{") {
		return "", fmt.Errorf("%s %s contains {{", o.str("kind"), name)
	}
	return marked.ReplaceAllString(string(text), "{{$1$2}}"), nil
}

package deploy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/kyaml/openapi"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
)

// customKinds are the kinds of custom resources.
var customKinds = []string{"keda.sh/v1alpha1 ScaledObject"}

// checkSchema checks kind, fields and types of a rendered object with the schema of Kubernetes 1.21 in kustomize. Kinds of
// newer versions are errors, because the manifests support clusters since 1.21.
func checkSchema(text []byte) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return err
	}
	var meta kyaml.TypeMeta
	if err := doc.Decode(&meta); err != nil {
		return err
	}
	schema := openapi.SchemaForResourceType(meta)
	if kind := meta.APIVersion + " " + meta.Kind; schema == nil {
		if slices.Contains(customKinds, kind) {
			return nil
		}
		return fmt.Errorf("unknown kind %s in Kubernetes 1.21", kind)
	}
	return checkNode(doc.Content[0], schema, "")
}

func checkNode(n *yaml.Node, schema *openapi.ResourceSchema, at string) error {
	s := schema.Schema
	switch n.Kind {
	case yaml.MappingNode:
		var errs []error
		given := map[string]bool{}
		for i := 0; i < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			given[key] = true
			if field := schema.Field(key); field != nil {
				errs = append(errs, checkNode(value, field, at+"."+key))
			} else if !s.Type.Contains("object") || len(s.Properties) > 0 {
				errs = append(errs, fmt.Errorf("%s: unknown field", at+"."+key))
			}
		}
		for _, name := range s.Required {
			if !given[name] {
				errs = append(errs, fmt.Errorf("%s: required", at+"."+name))
			}
		}
		return errors.Join(errs...)
	case yaml.SequenceNode:
		elements := schema.Elements()
		if elements == nil {
			return fmt.Errorf("%s: got a list, want %s", at, strings.Join(s.Type, " or "))
		}
		var errs []error
		for i, e := range n.Content {
			errs = append(errs, checkNode(e, elements, fmt.Sprintf("%s[%d]", at, i)))
		}
		return errors.Join(errs...)
	}
	want := map[string]string{"!!str": "string", "!!int": "integer", "!!bool": "boolean", "!!float": "number", "!!null": "object"}[n.Tag]
	if !s.Type.Contains(want) && !(want == "integer" && s.Format == "int-or-string") {
		return fmt.Errorf("%s: got %s %q, want %s", at, n.Tag[2:], n.Value, strings.Join(s.Type, " or "))
	}
	return nil
}

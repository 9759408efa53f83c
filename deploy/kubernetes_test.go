package deploy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// The checked fields of Kubernetes objects.
type (
	object struct {
		Kind     string
		Metadata struct {
			Name, Namespace string
			Labels          map[string]string
		}
		Data map[string]string
		Spec struct {
			Replicas        int
			ServiceName     string `yaml:"serviceName"`
			Selector        selector
			Template        pod
			Ports           []port
			ScaleTargetRef  struct{ Name string } `yaml:"scaleTargetRef"`
			MinReplicaCount int                   `yaml:"minReplicaCount"`
			Triggers        []struct {
				Type     string
				Metadata map[string]string
			}
			PodSelector          selector `yaml:"podSelector"`
			Ingress, Egress      []rule
			VolumeClaimTemplates []object                             `yaml:"volumeClaimTemplates"`
			Resources            struct{ Requests map[string]string } // of a volume claim template
		}
	}
	pod struct {
		Metadata struct{ Labels map[string]string }
		Spec     struct {
			EnableServiceLinks            *bool                       `yaml:"enableServiceLinks"`
			TerminationGracePeriodSeconds int                         `yaml:"terminationGracePeriodSeconds"`
			DNSConfig                     struct{ Searches []string } `yaml:"dnsConfig"`
			SecurityContext               struct {
				RunAsNonRoot bool `yaml:"runAsNonRoot"`
				RunAsUser    int  `yaml:"runAsUser"`
			} `yaml:"securityContext"`
			Containers                []podContainer
			Volumes                   []volume
			TopologySpreadConstraints []struct {
				LabelSelector selector `yaml:"labelSelector"`
			} `yaml:"topologySpreadConstraints"`
			Affinity struct {
				PodAntiAffinity struct {
					Required []struct {
						LabelSelector selector `yaml:"labelSelector"`
					} `yaml:"requiredDuringSchedulingIgnoredDuringExecution"`
				} `yaml:"podAntiAffinity"`
			}
		}
	}
	podContainer struct {
		Name, Image string
		Args        []string
		Env         []struct {
			Name, Value string
			ValueFrom   struct {
				FieldRef struct {
					FieldPath string `yaml:"fieldPath"`
				} `yaml:"fieldRef"`
				ConfigMapKeyRef struct{ Name, Key string } `yaml:"configMapKeyRef"`
			} `yaml:"valueFrom"`
		}
		EnvFrom []struct {
			ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
		} `yaml:"envFrom"`
		Ports []port

		StartupProbe   *probe `yaml:"startupProbe"`
		ReadinessProbe *probe `yaml:"readinessProbe"`
		LivenessProbe  *probe `yaml:"livenessProbe"`

		Resources       struct{ Requests, Limits map[string]string }
		SecurityContext struct {
			ReadOnlyRootFilesystem   bool                    `yaml:"readOnlyRootFilesystem"`
			AllowPrivilegeEscalation *bool                   `yaml:"allowPrivilegeEscalation"`
			Capabilities             struct{ Drop []string } `yaml:"capabilities"`
		} `yaml:"securityContext"`
		VolumeMounts []struct {
			Name      string
			MountPath string `yaml:"mountPath"`
		} `yaml:"volumeMounts"`
	}
	probe struct {
		HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	}
	volume struct {
		Name      string
		Secret    *source
		Projected struct {
			Sources []projection
		}
	}
	projection struct {
		ConfigMap *source `yaml:"configMap"`
		Secret    *source
	}
	source struct {
		Name       string
		SecretName string `yaml:"secretName"`
		Items      []struct{ Key, Path string }
	}
	port struct {
		Name          string
		Port          int
		ContainerPort int    `yaml:"containerPort"`
		TargetPort    string `yaml:"targetPort"`
	}
	rule struct {
		From, To []struct {
			PodSelector       *selector `yaml:"podSelector"`
			NamespaceSelector *selector `yaml:"namespaceSelector"`
		}
		Ports []struct{ Port int }
	}
)

// selector holds labels. A Service has them directly, other kinds under matchLabels.
type selector map[string]string

func (s *selector) UnmarshalYAML(n *yaml.Node) error {
	var wrapped struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	if err := n.Decode(&wrapped); err == nil && wrapped.MatchLabels != nil {
		*s = wrapped.MatchLabels
		return nil
	}
	return n.Decode((*map[string]string)(s))
}

func (s selector) selects(labels map[string]string) bool {
	for key, value := range s {
		if labels[key] != value {
			return false
		}
	}
	return true
}

// cluster holds the rendered objects of an overlay.
type cluster struct {
	objects []object
	running []object // those with pods
	account string   // the text of accounts.conf
}

// of returns the object of a kind with a name.
func (c cluster) of(kind, name string) (object, bool) {
	i := slices.IndexFunc(c.objects, func(o object) bool { return o.Kind == kind && o.Metadata.Name == name })
	if i < 0 {
		return object{}, false
	}
	return c.objects[i], true
}

// render returns the objects that 'kubectl apply -k' would send.
func render(dir, overlay string) (cluster, error) {
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "kubernetes", overlay))
	if err != nil {
		return cluster{}, err
	}
	var c cluster
	for _, r := range all.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return c, err
		}
		if err := checkSchema(text); err != nil {
			return c, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err)
		}
		var o object
		if err := yaml.Unmarshal(text, &o); err != nil {
			return c, fmt.Errorf("%s: %w", r.GetName(), err)
		}
		if o.Kind == "Secret" {
			for key, value := range o.Data {
				raw, err := base64.StdEncoding.DecodeString(value)
				if err != nil {
					return c, fmt.Errorf("secret %s: %w", o.Metadata.Name, err)
				}
				o.Data[key] = string(raw)
				if key == "accounts.conf" {
					c.account = string(raw)
				}
			}
		}
		c.add(o)
	}
	return c, nil
}

func (c *cluster) add(o object) {
	c.objects = append(c.objects, o)
	if len(o.Spec.Template.Spec.Containers) > 0 {
		c.running = append(c.running, o)
	}
}

// checkKubernetes returns all errors of an overlay.
func checkKubernetes(t *testing.T, dir, overlay string) error {
	c, err := render(dir, overlay)
	if err != nil {
		return err
	}
	return checkCluster(t, dir, c)
}

// checkCluster returns all errors of rendered objects.
func checkCluster(t *testing.T, dir string, c cluster) error {
	s, err := c.stack()
	errs := []error{err, checkStack(t, dir, s), c.checkNetwork()}
	all, err := images(dir)
	errs = append(errs, err)
	for _, o := range c.running {
		i := slices.IndexFunc(s.containers, func(x container) bool { return x.name == o.Metadata.Name })
		if i >= 0 {
			x := s.containers[i]
			errs = append(errs, withName(o, c.checkWorkload(o)), withName(o, c.checkPorts(o, all[x.image], x.env)), withName(o, checkServer(o, x)))
		}
	}
	for _, o := range c.objects {
		errs = append(errs, withName(o, c.checkSelectors(o)), withName(o, c.checkScaler(o)))
	}
	return errors.Join(errs...)
}

func withName(o object, err error) error {
	if err != nil {
		err = fmt.Errorf("%s %s: %w", o.Kind, o.Metadata.Name, err)
	}
	return err
}

// stack returns the containers of the cluster's pods.
func (c cluster) stack() (stack, error) {
	s := stack{ports: map[string][]int{}}
	var errs []error
	for _, o := range c.running {
		p := o.Spec.Template.Spec.Containers[0]
		repository, _, _ := strings.Cut(p.Image, ":")
		x := container{
			name: o.Metadata.Name, image: path.Base(repository), args: p.Args, memory: p.Resources.Limits["memory"],
			env: map[string]string{}, files: map[string]string{},
		}
		for _, from := range p.EnvFrom {
			settings, ok := c.of("ConfigMap", from.ConfigMapRef.Name)
			if !ok {
				errs = append(errs, withName(o, fmt.Errorf("unknown ConfigMap %s", from.ConfigMapRef.Name)))
			}
			for key, value := range settings.Data {
				x.env[key] = value
			}
		}
		for _, e := range p.Env {
			x.env[e.Name] = e.Value
			if e.ValueFrom.FieldRef.FieldPath == "metadata.name" {
				x.env[e.Name] = o.Metadata.Name + "-0"
			}
			if ref := e.ValueFrom.ConfigMapKeyRef; ref.Name != "" {
				settings, _ := c.of("ConfigMap", ref.Name)
				if x.env[e.Name] = settings.Data[ref.Key]; x.env[e.Name] == "" {
					errs = append(errs, withName(o, fmt.Errorf("%s: ConfigMap %s has no %s", e.Name, ref.Name, ref.Key)))
				}
			}
		}
		for _, m := range p.VolumeMounts {
			claim := func(o object) bool { return o.Metadata.Name == m.Name }
			if slices.ContainsFunc(o.Spec.VolumeClaimTemplates, claim) {
				x.dirs = append(x.dirs, m.MountPath)
				continue
			}
			errs = append(errs, withName(o, c.mount(o, m.Name, m.MountPath, x.files)))
		}
		s.containers = append(s.containers, x)
	}
	for _, o := range c.objects {
		if o.Kind == "Service" {
			for _, p := range o.Spec.Ports {
				s.ports[o.Metadata.Name] = append(s.ports[o.Metadata.Name], p.Port)
			}
		}
	}
	return s, errors.Join(errs...)
}

// mount adds the files of a volume.
func (c cluster) mount(o object, name, at string, files map[string]string) error {
	i := slices.IndexFunc(o.Spec.Template.Spec.Volumes, func(v volume) bool { return v.Name == name })
	if i < 0 {
		return fmt.Errorf("unknown volume %s", name)
	}
	v := o.Spec.Template.Spec.Volumes[i]
	add := func(kind string, s *source) error {
		if s == nil {
			return nil
		}
		from, ok := c.of(kind, s.Name+s.SecretName) // one of them is empty
		if !ok {
			return fmt.Errorf("volume %s: unknown %s %s", name, kind, s.Name+s.SecretName)
		}
		for key, value := range from.Data {
			if len(s.Items) == 0 {
				files[path.Join(at, key)] = value
			}
			for _, item := range s.Items {
				if item.Key == key {
					files[path.Join(at, item.Path)] = value
				}
			}
		}
		return nil
	}
	errs := []error{add("Secret", v.Secret)}
	for _, s := range v.Projected.Sources {
		errs = append(errs, add("Secret", s.Secret), add("ConfigMap", s.ConfigMap))
	}
	return errors.Join(errs...)
}

// TestImagesAreNamedInOnePlace changes the images in components/images, and checks that each pod of each overlay uses the
// new images.
func TestImagesAreNamedInOnePlace(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir := copyDeploy(t)
	text := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nimages:\n"
	all, err := images(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		text += fmt.Sprintf("  - {name: debrief/%s, newName: registry.example/%[1]s, newTag: v1}\n", name)
	}
	if err := os.WriteFile(filepath.Join(dir, "kubernetes/components/images/kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for overlay, pods := range map[string]int{"base": 6, "overlays/keda": 6, "overlays/one-node": 7} {
		c, err := render(dir, overlay)
		if err != nil || len(c.running) != pods {
			t.Errorf("%s: got %d with pods, %v, want %d", overlay, len(c.running), err, pods)
		}
		for _, o := range c.running {
			for _, x := range o.Spec.Template.Spec.Containers {
				if !strings.HasPrefix(x.Image, "registry.example/") || !strings.HasSuffix(x.Image, ":v1") {
					t.Errorf("%s: %s %s has image %s", overlay, o.Kind, o.Metadata.Name, x.Image)
				}
			}
		}
	}
}

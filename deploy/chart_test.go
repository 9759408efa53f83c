package deploy

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestChart builds the Helm chart with the program of .ci/release, renders it with Helm, adds the secrets as its
// kustomization does, and checks the result with all rules for the manifests. With the default values and the namespace of the
// base, it has the objects of the base.
func TestChart(t *testing.T) {
	if testing.Short() {
		t.Skip("builds Helm: run without -short")
	}
	t.Parallel()
	dir := copyDeploy(t)
	charts := t.TempDir()
	release(t, "run", ".", "-root", "../..", "-out", charts, "chart")
	chart, err := filepath.Glob(filepath.Join(charts, "debrief-chart-*.tgz"))
	if err != nil || len(chart) != 1 {
		t.Fatalf("got the charts %q, %v", chart, err)
	}
	base, err := render(dir, "base")
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct{ namespace, values string }{
		"default":    {"debrief", ""},
		"one server": {"debrief", "servers: 1\nreplicas: {generator: 1, reflector: 1, curator: 1, gateway: 1}\n"},
		"other names": {
			"agents", "registry: other.example/x\ntag: v9\nimagePullSecrets: [{name: pull}]\nsettings: {DEBRIEF_MODEL: llama3, DEBRIEF_MAX_TOKENS: 100}\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			values := filepath.Join(t.TempDir(), "values.yaml")
			if err := os.WriteFile(values, []byte(row.values), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := parseObjects(release(t, "run", "./render", chart[0], row.namespace, values), row.namespace)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range base.objects {
				if o.Kind == "Secret" {
					o.Metadata.Name = withoutHash(o.Metadata.Name)
					c.objects = append(c.objects, o)
				}
			}
			c.account = base.account
			if err := checkCluster(t, dir, c); err != nil {
				t.Error(err)
			}
			if name == "default" {
				compareNames(t, c, base)
			}
			for _, o := range c.running {
				image := o.Spec.Template.Spec.Containers[0].Image
				if want := "other.example/x/"; name == "other names" && !(strings.HasPrefix(image, want) && strings.HasSuffix(image, ":v9")) {
					t.Errorf("%s: got the image %s, want it from %s with the tag v9", o.Metadata.Name, image, want)
				}
			}
		})
	}
	invalid := filepath.Join(charts, "invalid.yaml")
	if err := os.WriteFile(invalid, []byte("servers: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "-C", "../.ci/release", "run", "./render", chart[0], "debrief", invalid)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "servers") {
		t.Errorf("two servers: got %v, %s, want an error", err, out)
	}
}

// release runs the go command in the module of the release program.
func release(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command("go", append([]string{"-C", "../.ci/release"}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, errs.String())
	}
	return out
}

// parseObjects reads the objects of a rendered chart, which Helm creates in a namespace, and checks each with the schema of
// Kubernetes.
func parseObjects(text []byte, namespace string) (cluster, error) {
	var c cluster
	var errs []error
	for _, doc := range bytes.Split(text, []byte("\n---\n")) {
		var o object
		if err := yaml.Unmarshal(doc, &o); err != nil {
			return c, err
		}
		if o.Kind == "" {
			continue
		}
		errs = append(errs, withName(o, checkSchema(doc)))
		o.Metadata.Namespace = namespace
		c.add(o)
	}
	return c, errors.Join(errs...)
}

// withoutHash returns the name of a generated object without the hash of its content.
func withoutHash(name string) string { return name[:strings.LastIndex(name, "-")] }

// compareNames checks that the chart has the kinds and names of the base, except for its namespace and the revision of the Job.
func compareNames(t *testing.T, chart, base cluster) {
	t.Helper()
	names := func(c cluster) map[string]bool {
		all := map[string]bool{}
		for _, o := range c.objects {
			name := o.Metadata.Name
			if o.Kind == "ConfigMap" && strings.Contains(name, "-") {
				name = withoutHash(name)
			}
			if o.Kind == "Job" {
				name = strings.TrimSuffix(name, "-1")
			}
			if o.Kind != "Secret" && o.Kind != "Namespace" {
				all[o.Kind+" "+name] = true
			}
		}
		return all
	}
	got, want := names(chart), names(base)
	for name := range want {
		if !got[name] {
			t.Errorf("the chart has no %s", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("only the chart has %s", name)
	}
}

// Command render prints the objects of a chart as 'helm template' would: render CHART.tgz NAMESPACE [VALUES.yaml]. The tests of
// deploy/ check them with the rules for the manifests there.
package main

import (
	"fmt"
	"os"
	"path"
	"slices"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: render CHART.tgz NAMESPACE [VALUES.yaml]")
		os.Exit(2)
	}
	if err := render(os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
}

// render validates the values with the schema of the chart, and prints its templates, sorted by name.
func render(file, namespace string, values []string) error {
	chart, err := loader.Load(file)
	if err != nil {
		return err
	}
	if err := chart.Validate(); err != nil {
		return err
	}
	given := common.Values{}
	if len(values) > 0 {
		if given, err = common.ReadValuesFile(values[0]); err != nil {
			return err
		}
	}
	all, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: "debrief", Namespace: namespace, Revision: 1, IsInstall: true}, nil)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return err
	}
	var names []string
	for name := range files {
		if path.Ext(name) == ".yaml" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("---\n# %s\n%s\n", name, files[name])
	}
	return nil
}

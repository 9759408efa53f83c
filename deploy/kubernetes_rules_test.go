package deploy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"debrief/events"
)

// Rules for the objects of an overlay.

// checkWorkload checks the settings required of all pods: user, rights, memory and grace period.
func (c cluster) checkWorkload(o object) error {
	spec := o.Spec.Template.Spec
	p := spec.Containers[0]
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		wrong("enableServiceLinks: must be false, because programs reject unknown variables")
	}
	if spec.SecurityContext.RunAsUser != 65532 || !spec.SecurityContext.RunAsNonRoot {
		wrong("runAsUser: must be 65532, as in the image")
	}
	if s := p.SecurityContext; !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		wrong("has unneeded rights: %+v", s)
	}
	if p.Resources.Requests["memory"] == "" || p.Resources.Limits["memory"] == "" {
		wrong("memory request and limit: required, got %+v", p.Resources)
	}
	if roleStream[o.Metadata.Name] != "" && spec.TerminationGracePeriodSeconds <= 30 {
		wrong("terminationGracePeriodSeconds: must be more than 30 s for work in flight, got %d", spec.TerminationGracePeriodSeconds)
	}
	if i := slices.Index(p.Args, "--replicas"); i >= 0 && i+1 < len(p.Args) {
		if nats, _ := c.of("StatefulSet", "nats"); p.Args[i+1] != strconv.Itoa(nats.Spec.Replicas) {
			wrong("%s replicas, want %d as servers", p.Args[i+1], nats.Spec.Replicas)
		}
	}
	if o.Spec.ServiceName != "" { // the servers use bare host names for each other
		service, _ := c.of("Service", o.Spec.ServiceName)
		if want := o.Spec.ServiceName + "." + service.Metadata.Namespace + ".svc.cluster.local"; !slices.Equal(spec.DNSConfig.Searches, []string{want}) {
			wrong("DNS search path %v, want %s", spec.DNSConfig.Searches, want)
		}
	}
	return errors.Join(errs...)
}

// checkPorts checks ports and paths of probes, and the health port of workers.
func (c cluster) checkPorts(o object, i image, env map[string]string) error {
	p := o.Spec.Template.Spec.Containers[0]
	byName := map[string]int{}
	for _, port := range p.Ports {
		byName[port.Name] = port.ContainerPort
	}
	var errs []error
	for _, check := range []*probe{p.StartupProbe, p.ReadinessProbe, p.LivenessProbe} {
		if check == nil {
			continue
		}
		if byName[check.HTTPGet.Port] == 0 {
			errs = append(errs, fmt.Errorf("probe of port %s: unknown port name", check.HTTPGet.Port))
		}
		path, _, _ := strings.Cut(check.HTTPGet.Path, "?")
		answers := map[string][]string{"nats-server": {"/healthz"}, "debrief": {"/v1/models"}}[i.program]
		if answers == nil {
			answers = []string{"/livez", "/readyz"} // not /healthz: a restart does not fix a red role
		}
		if !slices.Contains(answers, path) {
			errs = append(errs, fmt.Errorf("probe of %s: want one of %v", path, answers))
		}
	}
	if i.program == "nats-server" && (p.StartupProbe == nil || p.StartupProbe.HTTPGet.Path != "/healthz") {
		errs = append(errs, errors.New("startup probe: want /healthz with streams, so that the next server is replaced only after this one is in sync"))
	}
	if want := healthPort(i, env); want != 0 && byName["health"] != want {
		errs = append(errs, fmt.Errorf("port health is %d, want the program's %d", byName["health"], want))
	}
	return errors.Join(errs...)
}

var (
	maxFile  = regexp.MustCompile(`(?m)^  max_file: (\w+)`)
	lameDuck = regexp.MustCompile(`(?m)^lame_duck_duration: "(\w+)"`)
)

// checkServer checks volume size and grace period of a server against its configuration.
func checkServer(o object, c container) error {
	if c.image != "nats" {
		return nil
	}
	text := c.files[c.args[len(c.args)-1]]
	may, ends := maxFile.FindStringSubmatch(text), lameDuck.FindStringSubmatch(text)
	if may == nil || ends == nil || len(o.Spec.VolumeClaimTemplates) != 1 {
		return fmt.Errorf("%v is incomplete: max_file %q, lame_duck_duration %q, %d volumes", c.args, may, ends, len(o.Spec.VolumeClaimTemplates))
	}
	var errs []error
	if has := o.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"]; size(has) < size(may[1]) {
		errs = append(errs, fmt.Errorf("max_file %s exceeds the volume of %s", may[1], has))
	}
	takes, err := time.ParseDuration(ends[1])
	if grace := o.Spec.Template.Spec.TerminationGracePeriodSeconds; err != nil || float64(grace) < 2*takes.Seconds() {
		errs = append(errs, fmt.Errorf("terminationGracePeriodSeconds: got %d, want at least twice the lame duck mode of %v", grace, takes))
	}
	return errors.Join(errs...)
}

// checkSelectors checks that all selectors match pods, and that the ports of Services exist.
func (c cluster) checkSelectors(o object) error {
	var all []selector
	spec := o.Spec.Template.Spec
	for _, s := range spec.TopologySpreadConstraints {
		all = append(all, s.LabelSelector)
	}
	for _, s := range spec.Affinity.PodAntiAffinity.Required {
		all = append(all, s.LabelSelector)
	}
	var errs []error
	for _, s := range append(all, o.Spec.Selector) {
		if len(spec.Containers) > 0 && !s.selects(o.Spec.Template.Metadata.Labels) {
			errs = append(errs, fmt.Errorf("selector %v does not match the pods of the workload", s))
		}
	}
	all = append(all, o.Spec.Selector, o.Spec.PodSelector)
	for _, r := range slices.Concat(o.Spec.Ingress, o.Spec.Egress) {
		for _, peer := range slices.Concat(r.From, r.To) {
			if peer.PodSelector != nil {
				all = append(all, *peer.PodSelector)
			}
		}
	}
	for _, s := range all {
		if len(s) > 0 && len(c.selected(s)) == 0 {
			errs = append(errs, fmt.Errorf("selector %v matches no pods", s))
		}
	}
	if o.Kind == "Service" {
		for _, p := range o.Spec.Ports {
			for _, w := range c.selected(o.Spec.Selector) {
				if !slices.ContainsFunc(w.Spec.Template.Spec.Containers[0].Ports, func(x port) bool { return x.Name == p.TargetPort }) {
					errs = append(errs, fmt.Errorf("%s: unknown port %s", w.Metadata.Name, p.TargetPort))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// selected returns the workloads whose pods match a selector.
func (c cluster) selected(s selector) (all []object) {
	for _, o := range c.running {
		if s.selects(o.Spec.Template.Metadata.Labels) {
			all = append(all, o)
		}
	}
	return all
}

// checkNetwork checks the network policies: exactly the clients of the server have access, and the servers to each other.
func (c cluster) checkNetwork() error {
	var errs []error
	server, _ := c.of("StatefulSet", "nats")
	if deny, ok := c.of("NetworkPolicy", "default-deny"); !ok || len(deny.Spec.PodSelector) > 0 || deny.Spec.Ingress != nil || deny.Spec.Egress != nil {
		errs = append(errs, errors.New("NetworkPolicy default-deny: must select all pods and have no rules"))
	}
	for _, o := range c.running {
		needs := o.Metadata.Name != "nats" && o.Metadata.Name != "model"
		if may := c.allows(o, server, 4222); may != needs {
			errs = append(errs, fmt.Errorf("%s %s: access to the server: got %v, want %v", o.Kind, o.Metadata.Name, may, needs))
		}
	}
	if !c.allows(server, server, 6222) {
		errs = append(errs, errors.New("the servers have no access to each other"))
	}
	return errors.Join(errs...)
}

// allows reports whether the policies let the pods of one workload connect to a port of another.
func (c cluster) allows(from, to object, port int) bool {
	one := func(rules []rule, other object) bool {
		return slices.ContainsFunc(rules, func(r rule) bool {
			peer := slices.ContainsFunc(slices.Concat(r.From, r.To), func(p struct {
				PodSelector       *selector `yaml:"podSelector"`
				NamespaceSelector *selector `yaml:"namespaceSelector"`
			},
			) bool {
				return p.PodSelector != nil && p.PodSelector.selects(other.Spec.Template.Metadata.Labels)
			})
			return peer && slices.ContainsFunc(r.Ports, func(p struct{ Port int }) bool { return p.Port == port })
		})
	}
	var out, in bool
	for _, o := range c.objects {
		if o.Kind != "NetworkPolicy" {
			continue
		}
		out = out || o.Spec.PodSelector.selects(from.Spec.Template.Metadata.Labels) && one(o.Spec.Egress, to)
		in = in || o.Spec.PodSelector.selects(to.Spec.Template.Metadata.Labels) && one(o.Spec.Ingress, from)
	}
	return out && in
}

// roleStream is the stream of each role's durable. TestSetupCreatesDurablesOfScalers checks it with a server.
var roleStream = map[string]string{
	events.RoleGenerator: events.StreamTasks, events.RoleReflector: events.StreamExecutions, events.RoleCurator: events.StreamReflections,
}

var accountLine = regexp.MustCompile(`(?m)^  "?([A-Za-z0-9_-]+)"?: \{`)

// checkScaler checks the target and the triggers of a ScaledObject.
func (c cluster) checkScaler(o object) error {
	if o.Kind != "ScaledObject" {
		return nil
	}
	var errs []error
	if _, ok := c.of("Deployment", o.Spec.ScaleTargetRef.Name); !ok {
		errs = append(errs, fmt.Errorf("unknown Deployment %s", o.Spec.ScaleTargetRef.Name))
	}
	if o.Spec.MinReplicaCount < 2 {
		errs = append(errs, fmt.Errorf("minReplicaCount: must be at least 2, got %d", o.Spec.MinReplicaCount))
	}
	for _, t := range o.Spec.Triggers {
		m := t.Metadata
		if m["consumer"] != o.Spec.ScaleTargetRef.Name || roleStream[m["consumer"]] != m["stream"] || m["stream"] == "" {
			errs = append(errs, fmt.Errorf("reads durable %s of stream %s, want %s of %s", m["consumer"], m["stream"], o.Spec.ScaleTargetRef.Name, roleStream[o.Spec.ScaleTargetRef.Name]))
		}
		tenants := accountLine.FindAllStringSubmatch(c.account, -1)
		if !slices.ContainsFunc(tenants, func(m []string) bool { return m[1] == t.Metadata["account"] }) {
			errs = append(errs, fmt.Errorf("account %s: unknown tenant in accounts.conf", m["account"]))
		}
		host, number, _ := strings.Cut(m["natsServerMonitoringEndpoint"], ":")
		name, rest, _ := strings.Cut(host, ".")
		service, ok := c.of("Service", name)
		if !ok || rest != service.Metadata.Namespace+".svc.cluster.local" ||
			!slices.ContainsFunc(service.Spec.Ports, func(p port) bool { return p.Name == "monitor" && strconv.Itoa(p.Port) == number }) {
			errs = append(errs, fmt.Errorf("natsServerMonitoringEndpoint: unknown address %s", m["natsServerMonitoringEndpoint"]))
		}
	}
	return errors.Join(errs...)
}

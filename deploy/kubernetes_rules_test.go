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

// What must hold between the objects that an overlay renders to.

// workload is what holds for all pods: who they run as, what they may, when they are ended.
func (c cluster) workload(o object) error {
	spec := o.Spec.Template.Spec
	p := spec.Containers[0]
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if spec.EnableServiceLinks == nil || *spec.EnableServiceLinks {
		wrong("has service links, which are variables that a program may not know")
	}
	if spec.SecurityContext.RunAsUser != 65532 || !spec.SecurityContext.RunAsNonRoot {
		wrong("does not run as 65532, as its image does")
	}
	if s := p.SecurityContext; !s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		wrong("may more than it needs: %+v", s)
	}
	if p.Resources.Requests["memory"] == "" || p.Resources.Limits["memory"] == "" {
		wrong("has no bounds for memory: %+v", p.Resources)
	}
	if roleStream[o.Metadata.Name] != "" && spec.TerminationGracePeriodSeconds <= 30 {
		wrong("is killed after %d s, and work in flight has 30 s", spec.TerminationGracePeriodSeconds)
	}
	if i := slices.Index(p.Args, "--replicas"); i >= 0 && i+1 < len(p.Args) {
		if nats, _ := c.of("StatefulSet", "nats"); p.Args[i+1] != strconv.Itoa(nats.Spec.Replicas) {
			wrong("asks for %s replicas, of %d servers", p.Args[i+1], nats.Spec.Replicas)
		}
	}
	if o.Spec.ServiceName != "" { // servers that know each other by their bare names
		service, _ := c.of("Service", o.Spec.ServiceName)
		if want := o.Spec.ServiceName + "." + service.Metadata.Namespace + ".svc.cluster.local"; !slices.Equal(spec.DNSConfig.Searches, []string{want}) {
			wrong("looks for names in %v, want %s", spec.DNSConfig.Searches, want)
		}
	}
	return errors.Join(errs...)
}

// ports are those that probes ask, and a worker's is the one where its program answers.
func (c cluster) ports(o object, i image, env map[string]string) error {
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
			errs = append(errs, fmt.Errorf("probe of port %s: there is none of that name", check.HTTPGet.Port))
		}
		asks, _, _ := strings.Cut(check.HTTPGet.Path, "?")
		answers := map[string][]string{"nats-server": {"/healthz"}, "debrief": {"/v1/models"}}[i.program]
		if answers == nil {
			answers = []string{"/livez", "/readyz"} // not /healthz: no restart mends a red one
		}
		if !slices.Contains(answers, asks) {
			errs = append(errs, fmt.Errorf("probe of %s: want one of %v", asks, answers))
		}
	}
	if i.program == "nats-server" && (p.StartupProbe == nil || p.StartupProbe.HTTPGet.Path != "/healthz") {
		errs = append(errs, errors.New("nothing waits for its streams before the next server is replaced: want a startup probe of all of /healthz"))
	}
	if want := healthPort(i, env); want != 0 && byName["health"] != want {
		errs = append(errs, fmt.Errorf("port health is %d, and the program answers at %d", byName["health"], want))
	}
	return errors.Join(errs...)
}

var (
	maxFile  = regexp.MustCompile(`(?m)^  max_file: (\w+)`)
	lameDuck = regexp.MustCompile(`(?m)^lame_duck_duration: "(\w+)"`)
)

// serves holds the numbers of a server's pods against those of the configuration that it is started with: what it may store,
// how long it takes to end.
func serves(o object, c container) error {
	if c.image != "nats" {
		return nil
	}
	text := c.files[c.args[len(c.args)-1]]
	may, ends := maxFile.FindStringSubmatch(text), lameDuck.FindStringSubmatch(text)
	if may == nil || ends == nil || len(o.Spec.VolumeClaimTemplates) != 1 {
		return fmt.Errorf("%v says too little: max_file %q, lame_duck_duration %q, %d volumes", c.args, may, ends, len(o.Spec.VolumeClaimTemplates))
	}
	var errs []error
	if has := o.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests["storage"]; size(has) < size(may[1]) {
		errs = append(errs, fmt.Errorf("may store %s on a volume of %s", may[1], has))
	}
	takes, err := time.ParseDuration(ends[1])
	if grace := o.Spec.Template.Spec.TerminationGracePeriodSeconds; err != nil || float64(grace) < 2*takes.Seconds() {
		errs = append(errs, fmt.Errorf("is killed after %d s, and lame duck mode alone takes %v", grace, takes))
	}
	return errors.Join(errs...)
}

// selecting checks that what selects pods selects some, and Services ports that they have.
func (c cluster) selecting(o object) error {
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
			errs = append(errs, fmt.Errorf("%v does not select its own pods", s))
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
			errs = append(errs, fmt.Errorf("%v selects nothing", s))
		}
	}
	if o.Kind == "Service" {
		for _, p := range o.Spec.Ports {
			for _, w := range c.selected(o.Spec.Selector) {
				if !slices.ContainsFunc(w.Spec.Template.Spec.Containers[0].Ports, func(x port) bool { return x.Name == p.TargetPort }) {
					errs = append(errs, fmt.Errorf("%s has no port %s", w.Metadata.Name, p.TargetPort))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// selected are the workloads whose pods a selector selects.
func (c cluster) selected(s selector) (all []object) {
	for _, o := range c.running {
		if s.selects(o.Spec.Template.Metadata.Labels) {
			all = append(all, o)
		}
	}
	return all
}

// network checks who reaches whom: all that need the server do, through both its policies and their own.
func (c cluster) network() error {
	var errs []error
	server, _ := c.of("StatefulSet", "nats")
	if nobody, ok := c.of("NetworkPolicy", "nobody"); !ok || len(nobody.Spec.PodSelector) > 0 || nobody.Spec.Ingress != nil || nobody.Spec.Egress != nil {
		errs = append(errs, errors.New("no policy denies what is not allowed"))
	}
	for _, o := range c.running {
		needs := o.Metadata.Name != "nats" && o.Metadata.Name != "model"
		if may := c.allows(o, server, 4222); may != needs {
			errs = append(errs, fmt.Errorf("%s %s: needs the server: %v; %s", o.Kind, o.Metadata.Name, needs, map[bool]string{true: "may reach it", false: "may not reach it"}[may]))
		}
	}
	if !c.allows(server, server, 6222) {
		errs = append(errs, errors.New("the servers may not reach each other"))
	}
	return errors.Join(errs...)
}

// allows says whether policies let pods of one workload reach a port of another.
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

// roleStream is the stream that a role's durable reads; TestScalersReadDurablesThatThereAre asks the server.
var roleStream = map[string]string{
	events.RoleGenerator: events.StreamTasks, events.RoleReflector: events.StreamExecutions, events.RoleCurator: events.StreamReflections,
}

var accountLine = regexp.MustCompile(`(?m)^  "?([A-Za-z0-9_-]+)"?: \{`)

// scaling checks a ScaledObject: what it scales, and the lag that it reads.
func (c cluster) scaling(o object) error {
	if o.Kind != "ScaledObject" {
		return nil
	}
	var errs []error
	if _, ok := c.of("Deployment", o.Spec.ScaleTargetRef.Name); !ok {
		errs = append(errs, fmt.Errorf("no Deployment %s", o.Spec.ScaleTargetRef.Name))
	}
	if o.Spec.MinReplicaCount < 2 {
		errs = append(errs, fmt.Errorf("leaves %d of the two workers that base has for availability", o.Spec.MinReplicaCount))
	}
	for _, t := range o.Spec.Triggers {
		m := t.Metadata
		if m["consumer"] != o.Spec.ScaleTargetRef.Name || roleStream[m["consumer"]] != m["stream"] || m["stream"] == "" {
			errs = append(errs, fmt.Errorf("reads durable %s of stream %s, want %s of %s", m["consumer"], m["stream"], o.Spec.ScaleTargetRef.Name, roleStream[o.Spec.ScaleTargetRef.Name]))
		}
		tenants := accountLine.FindAllStringSubmatch(c.account, -1)
		if !slices.ContainsFunc(tenants, func(m []string) bool { return m[1] == t.Metadata["account"] }) {
			errs = append(errs, fmt.Errorf("account %s: is no tenant of accounts.conf", m["account"]))
		}
		host, number, _ := strings.Cut(m["natsServerMonitoringEndpoint"], ":")
		name, rest, _ := strings.Cut(host, ".")
		service, ok := c.of("Service", name)
		if !ok || rest != service.Metadata.Namespace+".svc.cluster.local" ||
			!slices.ContainsFunc(service.Spec.Ports, func(p port) bool { return p.Name == "monitor" && strconv.Itoa(p.Port) == number }) {
			errs = append(errs, fmt.Errorf("nobody shows what the server does at %s", m["natsServerMonitoringEndpoint"]))
		}
	}
	return errors.Join(errs...)
}

// Package chart renders the Helm chart as Helm does and reads the result as a Kubernetes server
// does, strictly: an unknown field, or a value of the wrong type, fails. It is a module of its own,
// because Helm and Kubernetes bring many others with them.
package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/pinfold-zk/pinfold/internal/config"
)

const (
	dir       = "../../deploy/helm/pinfold"
	release   = "zk"
	namespace = "coordination"
)

// rendered is what the chart makes of some values.
type rendered struct {
	set      *appsv1.StatefulSet
	config   *corev1.ConfigMap
	services map[string]*corev1.Service
	budget   *policyv1.PodDisruptionBudget
	policy   *networkingv1.NetworkPolicy
	monitor  map[string]any // of the Prometheus operator, whose types are not Kubernetes' own
	notes    string         // what Helm prints
}

// render renders the chart with values, which are YAML and override the defaults.
func render(t *testing.T, values string) (*rendered, error) {
	t.Helper()
	return renderAs(t, release, values)
}

// renderAs does it for the release of that name.
func renderAs(t *testing.T, release, values string) (*rendered, error) {
	t.Helper()
	c, err := loader.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	over, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, over, chartutil.ReleaseOptions{Name: release, Namespace: namespace, IsInstall: true}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return nil, err
	}
	r := &rendered{services: map[string]*corev1.Service{}}
	for name, text := range files {
		if filepath.Base(name) == "NOTES.txt" {
			r.notes = text
		}
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		for _, doc := range regexp.MustCompile(`(?m)^---$`).Split(text, -1) {
			if len(strings.TrimSpace(doc)) > 0 {
				r.add(t, name, doc)
			}
		}
	}
	return r, nil
}

// add reads one object.
func (r *rendered) add(t *testing.T, name, doc string) {
	t.Helper()
	var kind struct{ APIVersion, Kind string }
	if err := yaml.Unmarshal([]byte(doc), &kind); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, doc)
	}
	if kind.Kind == "" { // only comments
		return
	}
	if err := checkSchema(doc); err != nil {
		t.Errorf("%s: %v\n%s", name, err, doc)
	}
	if kind.Kind == "ServiceMonitor" {
		if err := yaml.UnmarshalStrict([]byte(doc), &r.monitor); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme, policyv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	o, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode([]byte(doc), nil, nil)
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, doc)
	}
	checkNames(t, name, o)
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		r.set = o
	case *corev1.ConfigMap:
		r.config = o
	case *corev1.Service:
		r.services[o.Name] = o
	case *policyv1.PodDisruptionBudget:
		r.budget = o
	case *networkingv1.NetworkPolicy:
		r.policy = o
	case *corev1.ServiceAccount:
	default:
		t.Errorf("%s: the chart makes a %T, which this test does not know", name, o)
	}
}

// checkNames checks an object's name, labels and names of ports by the rules of a Kubernetes server.
func checkNames(t *testing.T, file string, o runtime.Object) {
	t.Helper()
	m, err := meta.Accessor(o)
	if err != nil {
		t.Fatal(err)
	}
	labels := []map[string]string{m.GetLabels()}
	names := map[string][]string{}
	switch o := o.(type) {
	case *appsv1.StatefulSet:
		labels = append(labels, o.Spec.Template.Labels)
		last := fmt.Sprintf("%s-%d", o.Name, *o.Spec.Replicas-1)
		names[last] = validation.IsDNS1123Label(last) // the pod's host name
		revision := o.Name + "-0123456789"            // the label controller-revision-hash
		names[revision] = validation.IsValidLabelValue(revision)
		for _, p := range o.Spec.Template.Spec.Containers[0].Ports {
			names[p.Name] = validation.IsValidPortName(p.Name)
		}
	case *corev1.Service:
		names[o.Name] = validation.IsDNS1035Label(o.Name)
		for _, p := range o.Spec.Ports {
			names[p.Name] = validation.IsValidPortName(p.Name)
		}
	default:
		names[m.GetName()] = validation.IsDNS1123Subdomain(m.GetName())
	}
	for _, l := range labels {
		for key, value := range l {
			names[key], names[key+"="+value] = validation.IsQualifiedName(key), validation.IsValidLabelValue(value)
		}
	}
	for what, wrong := range names {
		if len(wrong) > 0 {
			t.Errorf("%s: %s: %s", file, what, strings.Join(wrong, "; "))
		}
	}
}

// TestLongNames checks what the chart makes of the longest name that Helm permits a release, and of tags
// that are no labels.
func TestLongNames(t *testing.T) {
	for _, tag := range []string{strings.Repeat("0123456.", 16), "_latest", "1.0@sha256:" + strings.Repeat("0123", 16)} {
		if _, err := renderAs(t, strings.Repeat("long", 13)+"x", fmt.Sprintf("image: {tag: %q}\nreplicas: 7\n", tag)); err != nil {
			t.Error(err)
		}
	}
}

// zooCfg loads zoo.cfg as the server with this id does.
func (r *rendered) zooCfg(t *testing.T, id int64) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(file, []byte(r.config.Data["zoo.cfg"]), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, warnings, err := (&config.Source{File: file, ID: &id}).Load()
	if err != nil {
		t.Fatalf("%v\n%s", err, r.config.Data["zoo.cfg"])
	}
	for _, w := range warnings {
		t.Errorf("the server warns: %+v", w)
	}
	return cfg
}

// TestBackupJob reads the CronJob of the page about backups strictly, and compares it with the chart: it
// mounts the disk of a member that exists, read-only, on that member's node, as the user of the files.
func TestBackupJob(t *testing.T) {
	page, err := os.ReadFile("../../docs/ops/backup.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, found := strings.Cut(text, "```\n")
	if !found {
		t.Fatal("the page has no YAML")
	}
	if err := checkSchema(text); err != nil {
		t.Error(err)
	}
	scheme := runtime.NewScheme()
	if err := batchv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	o, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode([]byte(text), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	job := o.(*batchv1.CronJob)
	r, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	member := r.set.Name + "-0"
	pod, template := job.Spec.JobTemplate.Spec.Template, r.set.Spec.Template.Spec
	if job.Namespace != namespace || len(pod.Labels) > 0 {
		t.Errorf("namespace %s, labels %v: the services and the policy of the members select its pods", job.Namespace, pod.Labels)
	}
	near := pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0]
	if near.TopologyKey != corev1.LabelHostname || near.LabelSelector.MatchLabels[appsv1.StatefulSetPodNameLabel] != member {
		t.Errorf("it runs beside %+v", near)
	}
	claim := pod.Spec.Volumes[0].PersistentVolumeClaim
	if want := r.set.Spec.VolumeClaimTemplates[0].Name + "-" + member; claim.ClaimName != want {
		t.Errorf("the claim is %+v, want %s", claim, want)
	}
	c, server := pod.Spec.Containers[0], template.Containers[0]
	if *pod.Spec.SecurityContext.RunAsUser != *template.SecurityContext.RunAsUser || !reflect.DeepEqual(c.SecurityContext, server.SecurityContext) {
		t.Errorf("it runs as %+v, %+v", pod.Spec.SecurityContext, c.SecurityContext)
	}
	if c.Args[0] != "backup" || !slices.Contains(c.Args, c.VolumeMounts[0].MountPath) || !c.VolumeMounts[0].ReadOnly {
		t.Errorf("arguments %q, mounts %+v", c.Args, c.VolumeMounts)
	}
}

// TestLint is `helm lint --strict`.
func TestLint(t *testing.T) {
	for _, m := range lint.AllWithKubeVersion(dir, nil, namespace, nil).Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}

// TestMembers checks that each pod finds its own line in zoo.cfg, under the name that the headless
// service gives it, and that all ports have their names and probes their port.
func TestMembers(t *testing.T) {
	for _, replicas := range []int{1, 3, 5, 7} {
		t.Run(fmt.Sprint(replicas), func(t *testing.T) {
			r, err := render(t, fmt.Sprintf("replicas: %d\n", replicas))
			if err != nil {
				t.Fatal(err)
			}
			if got := int(*r.set.Spec.Replicas); got != replicas {
				t.Errorf("%d replicas, want %d", got, replicas)
			}
			pod := r.set.Spec.Template.Spec.Containers[0]
			if (replicas > 1) != slices.Contains(pod.Args, "--id=hostname") {
				t.Errorf("the arguments are %q", pod.Args)
			}
			for i := range replicas {
				cfg := r.zooCfg(t, int64(i+1))
				if replicas == 1 {
					if cfg.Quorum.Distributed() {
						t.Error("one member is no ensemble")
					}
					continue
				}
				line := fmt.Sprintf("server.%d=%s-%d.%s.%s.svc.cluster.local:2888:3888\n", i+1, r.set.Name, i, r.set.Spec.ServiceName, namespace)
				if !strings.Contains(r.config.Data["zoo.cfg"]+"\n", line) || len(cfg.Quorum.Members.Servers) != replicas {
					t.Errorf("zoo.cfg has not the line %s%s", line, r.config.Data["zoo.cfg"])
				}
			}
			if (replicas > 1) != (r.budget != nil) {
				t.Errorf("a disruption budget for %d members: %v", replicas, r.budget != nil)
			}
			r.checkReferences(t)
		})
	}
}

// checkReferences looks at names that point from one object into another.
func (r *rendered) checkReferences(t *testing.T) {
	t.Helper()
	labels := r.set.Spec.Template.Labels
	matches := func(what string, selector map[string]string) {
		for k, v := range selector {
			if labels[k] != v {
				t.Errorf("%s selects %s=%s, and the pods have %q", what, k, v, labels[k])
			}
		}
		if len(selector) == 0 {
			t.Errorf("%s selects everything", what)
		}
	}
	matches("the stateful set", r.set.Spec.Selector.MatchLabels)
	if r.budget != nil {
		matches("the disruption budget", r.budget.Spec.Selector.MatchLabels)
	}
	pod := r.set.Spec.Template.Spec.Containers[0]
	ports := map[string]bool{}
	for _, p := range pod.Ports {
		ports[p.Name] = true
	}
	for name, s := range r.services {
		matches(name, s.Spec.Selector)
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] {
				t.Errorf("service %s: the pods have no port %q", name, p.TargetPort.StrVal)
			}
		}
	}
	members := r.services[r.set.Spec.ServiceName]
	if members == nil || members.Spec.ClusterIP != "None" || !members.Spec.PublishNotReadyAddresses {
		t.Errorf("members do not find each other before they are ready: %+v", members)
	}
	for _, p := range []struct {
		probe *corev1.Probe
		path  string
	}{{pod.StartupProbe, "/healthz"}, {pod.LivenessProbe, "/healthz"}, {pod.ReadinessProbe, "/readyz"}} {
		if get := p.probe.HTTPGet; get.Path != p.path || !ports[get.Port.StrVal] {
			t.Errorf("the probe of %s is %+v", p.path, get)
		}
	}
	volumes := map[string]bool{}
	for _, v := range r.set.Spec.Template.Spec.Volumes {
		volumes[v.Name] = v.ConfigMap != nil && v.ConfigMap.Name == r.config.Name
	}
	for _, v := range r.set.Spec.VolumeClaimTemplates {
		volumes[v.Name] = true
	}
	for _, m := range pod.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("there is no volume %s for %s", m.Name, m.MountPath)
		}
	}
}

// TestValues checks that values reach what they are for.
func TestValues(t *testing.T) {
	r, err := render(t, `
fullnameOverride: keeper
clusterDomain: example.org
service: {port: 2281}
config: {tickTime: 500, jute.maxbuffer: 4194304, snapCount: 1000000}
properties: ["-Dzookeeper.extendedTypesEnabled=true"]
persistence: {storageClassName: fast, size: 50Gi}
antiAffinity: required
networkPolicy: {clients: [{podSelector: {matchLabels: {zookeeper: client}}}], monitoring: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
serviceAccount: {create: false}
`)
	if err != nil {
		t.Fatal(err)
	}
	r.checkReferences(t)
	cfg := r.config.Data["zoo.cfg"]
	for _, line := range []string{"tickTime=500\n", "jute.maxbuffer=4194304\n", "snapCount=1000000\n", "initLimit=10\n", "server.3=keeper-2.keeper-members.coordination.svc.example.org:2888:3888"} {
		if !strings.Contains(cfg, line) {
			t.Errorf("zoo.cfg has no line %q:\n%s", line, cfg)
		}
	}
	pod := r.set.Spec.Template.Spec
	if pod.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil || pod.ServiceAccountName != "default" {
		t.Errorf("affinity %+v, service account %s", pod.Affinity, pod.ServiceAccountName)
	}
	if want := []string{"server", "/etc/pinfold/zoo.cfg", "--id=hostname", "-Dzookeeper.extendedTypesEnabled=true"}; !reflect.DeepEqual(pod.Containers[0].Args, want) {
		t.Errorf("arguments %q, want %q", pod.Containers[0].Args, want)
	}
	claim := r.set.Spec.VolumeClaimTemplates[0].Spec
	if *claim.StorageClassName != "fast" || claim.Resources.Requests.Storage().String() != "50Gi" {
		t.Errorf("the claim is %+v", claim)
	}
	if r.services["keeper"].Spec.Ports[0].Port != 2281 || r.monitor == nil {
		t.Errorf("services %+v, monitor %v", r.services, r.monitor)
	}
	if got := r.policy.Spec.Ingress[1].From[0].PodSelector.MatchLabels["zookeeper"]; got != "client" {
		t.Errorf("clients are let in by %q", got)
	}
}

// TestNewEnsemble checks what an empty volume means.
func TestNewEnsemble(t *testing.T) {
	for values, want := range map[string]string{"": "db.autocreate=true\n", "newEnsemble: false": "db.autocreate=false\n", "{replicas: 1, newEnsemble: false}": "db.autocreate=false"} {
		r, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		if cfg := r.config.Data["zoo.cfg"]; !strings.Contains(cfg, want) {
			t.Errorf("%q: zoo.cfg has no line %q:\n%s", values, want, cfg)
		}
	}
}

// TestSafePod checks that the defaults pass the "restricted" standard of pod security.
func TestSafePod(t *testing.T) {
	r, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	pod, c := r.set.Spec.Template.Spec.SecurityContext, r.set.Spec.Template.Spec.Containers[0].SecurityContext
	if !*pod.RunAsNonRoot || pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault || *c.AllowPrivilegeEscalation ||
		!*c.ReadOnlyRootFilesystem || !slices.Contains(c.Capabilities.Drop, "ALL") {
		t.Errorf("pod %+v, container %+v", pod, c)
	}
}

// TestClosed checks that with the defaults only members reach the peers' ports and only the node
// reaches the administration server, which restores for nobody and lets nobody in because the root is open.
func TestClosed(t *testing.T) {
	r, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	if admin := r.zooCfg(t, 1).Admin; !admin.Enabled || admin.Restore || admin.Anyone {
		t.Errorf("the administration server: %+v", admin)
	}
	if r.policy == nil || !reflect.DeepEqual(r.policy.Spec.PodSelector.MatchLabels, r.set.Spec.Selector.MatchLabels) {
		t.Fatalf("the policy is %+v", r.policy)
	}
	from := map[string]int{} // by port: the number of peers that are let in, 0 for everybody
	for _, rule := range r.policy.Spec.Ingress {
		for _, p := range rule.Ports {
			from[p.Port.StrVal] = len(rule.From)
		}
	}
	if want := map[string]int{"quorum": 1, "election": 1, "client": 0}; !reflect.DeepEqual(from, want) {
		t.Errorf("the policy opens %v, want %v", from, want)
	}
	members := r.policy.Spec.Ingress[0].From[0]
	if members.NamespaceSelector != nil || !reflect.DeepEqual(members.PodSelector.MatchLabels, r.set.Spec.Selector.MatchLabels) {
		t.Errorf("the peers' ports are for %+v", members)
	}
	open, err := render(t, "networkPolicy: {enabled: false}")
	if err != nil {
		t.Fatal(err)
	}
	if open.policy != nil || !strings.Contains(open.notes, "WARNING") || strings.Contains(r.notes, "WARNING") {
		t.Errorf("without a policy: %+v, notes\n%s\nwith one\n%s", open.policy, open.notes, r.notes)
	}
}

// TestRefusals checks values that would make an ensemble that cannot work.
func TestRefusals(t *testing.T) {
	for values, want := range map[string]string{
		"replicas: 2": "replicas",
		"replicas: 3\npodDisruptionBudget: {maxUnavailable: 2}": "at most 1 may be away",
		"config: {dataDir: /elsewhere}":                         "dataDir",
		"config: {db.autocreate: false}":                        "db.autocreate",
		"config: {server.4: other}":                             "server.4",
		"properties: [\"-Xmx2g\"]":                              "properties",
		"persistance: {size: 1Gi}":                              "persistance",
		"serviceMonitor: {enabled: true}":                       "networkPolicy.monitoring",
	} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want one about %q", values, err, want)
		}
	}
}

// TestRestart checks that a change of zoo.cfg restarts the pods, and only such a change.
func TestRestart(t *testing.T) {
	sum := func(values string) string {
		r, err := render(t, values)
		if err != nil {
			t.Fatal(err)
		}
		return r.set.Spec.Template.Annotations["checksum/config"]
	}
	if sum("") == sum("config: {tickTime: 3000}") || sum("") == sum("properties: [\"-Da=b\"]") || sum("") != sum("service: {port: 1}") {
		t.Error("the checksum of the configuration does not follow it")
	}
}

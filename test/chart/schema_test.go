package chart

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
	"sigs.k8s.io/yaml"
)

// The schemas are those of Kubernetes itself, at the version of k8s.io/api in go.mod, and of the Prometheus operator.
// Both are files of Go modules, which are fetched and checked like any other, but not compiled.
const (
	kubernetes = "k8s.io/kubernetes"
	operator   = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
)

// schemas makes a validator of kubeconform once, with the schemas as files in the form that it reads.
var schemas = sync.OnceValues(func() (validator.Validator, error) {
	to, err := os.MkdirTemp("", "pinfold-schemas-") // is left to TestMain
	if err != nil {
		return nil, err
	}
	schemaDir = to
	version, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/api").Output()
	if err != nil {
		return nil, err
	}
	from, err := module(kubernetes + "@v1" + strings.TrimPrefix(strings.TrimSpace(string(version)), "v0"))
	if err != nil {
		return nil, err
	}
	for _, api := range []string{"api__v1", "apis__apps__v1", "apis__batch__v1", "apis__networking.k8s.io__v1", "apis__policy__v1"} {
		if err := writeKinds(to, filepath.Join(from, "api/openapi-spec/v3", api+"_openapi.json")); err != nil {
			return nil, err
		}
	}
	if from, err = module(operator); err != nil {
		return nil, err
	}
	if err := writeMonitor(to, filepath.Join(from, "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml")); err != nil {
		return nil, err
	}
	return validator.New([]string{to + "/{{ .ResourceKind }}{{ .KindSuffix }}.json"}, validator.Opts{Strict: true})
})

// schemaDir is the directory of the schemas, "" if no test has asked for them.
var schemaDir string

func TestMain(m *testing.M) {
	status := m.Run()
	if schemaDir != "" {
		os.RemoveAll(schemaDir)
	}
	os.Exit(status)
}

// module returns the directory of a module's files.
func module(name string) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", name).Output()
	var m struct{ Dir, Error string }
	if wrong := json.Unmarshal(out, &m); wrong != nil || m.Error != "" || err != nil {
		return "", fmt.Errorf("%s: %v %s", name, err, m.Error)
	}
	return m.Dir, nil
}

// writeKinds writes a schema for each kind of an API. A field that the API does not have is refused.
func writeKinds(to, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var api struct {
		Components struct {
			Schemas map[string]map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(b, &api); err != nil {
		return err
	}
	for _, s := range api.Components.Schemas {
		closeFields(s)
	}
	for full, s := range api.Components.Schemas {
		kinds, _ := s["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 { // options of requests belong to many
			continue
		}
		kind := kinds[0].(map[string]any)
		err := writeSchema(to, kind, map[string]any{
			// Required of the whole document only: a claim within a StatefulSet is of the same kind, and has neither.
			"required": []string{"apiVersion", "kind", "metadata"},
			"allOf":    []any{map[string]any{"$ref": "#/components/schemas/" + full}}, "components": api.Components,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// writeMonitor writes the schema of the resource that a file defines.
func writeMonitor(to, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal(b, &crd); err != nil {
		return err
	}
	for _, v := range crd.Spec.Versions {
		s := v.Schema.OpenAPIV3Schema
		closeFields(s)
		delete(s["properties"].(map[string]any)["metadata"].(map[string]any), "additionalProperties")
		if err := writeSchema(to, map[string]any{"group": crd.Spec.Group, "version": v.Name, "kind": crd.Spec.Names.Kind}, s); err != nil {
			return err
		}
	}
	return nil
}

// writeSchema writes the schema of a kind under the name by which kubeconform looks for it.
func writeSchema(to string, kind map[string]any, schema any) error {
	group, _, _ := strings.Cut(kind["group"].(string), ".")
	if group != "" {
		group = "-" + group
	}
	b, err := json.Marshal(schema)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s%s-%s.json", kind["kind"], group, kind["version"])
	return os.WriteFile(filepath.Join(to, strings.ToLower(name)), b, 0o600)
}

// closeFields has every object whose fields a schema names refuse others.
func closeFields(v any) {
	switch v := v.(type) {
	case map[string]any:
		_, named := v["properties"].(map[string]any)
		if _, more := v["additionalProperties"]; named && !more && v["x-kubernetes-preserve-unknown-fields"] != true {
			v["additionalProperties"] = false
		}
		for _, below := range v {
			closeFields(below)
		}
	case []any:
		for _, below := range v {
			closeFields(below)
		}
	}
}

// checkSchema validates one object as kubeconform does.
func checkSchema(doc string) error {
	v, err := schemas()
	if err != nil {
		return err
	}
	for _, r := range v.Validate("chart", io.NopCloser(strings.NewReader(doc))) {
		switch {
		case r.Err != nil:
			return r.Err
		case r.Status != validator.Valid:
			return fmt.Errorf("status %d", r.Status)
		}
	}
	return nil
}

// TestSchemaRefuses spoils objects of the chart, one place each: the schemas must refuse them, and accept what was not spoiled.
func TestSchemaRefuses(t *testing.T) {
	const good = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: zk}, spec: {serviceName: zk, selector: {}, template: {spec: {containers: [
  {name: c, ports: [{containerPort: 2181}], livenessProbe: {httpGet: {port: admin}}, volumeMounts: [{name: d, mountPath: /d}]}]}},
  volumeClaimTemplates: [{metadata: {name: d}, spec: {}}]}}`
	const monitor = `{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor, metadata: {name: zk}, spec: {selector: {}, endpoints: [{port: admin, scheme: http}]}}`
	for _, doc := range []string{good, monitor} {
		if err := checkSchema(doc); err != nil {
			t.Fatalf("%v\n%s", err, doc)
		}
	}
	for name, bad := range map[string]string{
		"a port without its number":        strings.Replace(good, "containerPort: 2181", "name: client", 1),
		"a port of the wrong type":         strings.Replace(good, "2181", "many", 1),
		"a mount without its path":         strings.Replace(good, ", mountPath: /d", "", 1),
		"a probe without its port":         strings.Replace(good, "{port: admin}", "{path: /readyz}", 1),
		"a set without a selector":         strings.Replace(good, "selector: {}, ", "", 1),
		"a container without a name":       strings.Replace(good, "{name: c, ", "{", 1),
		"an unknown field":                 strings.Replace(good, "serviceName", "servicename", 1),
		"an object without metadata":       strings.Replace(good, "metadata: {name: zk}, ", "", 1),
		"a monitor with an unknown field":  strings.Replace(monitor, "endpoints", "endpoint", 1),
		"a monitor without a selector":     strings.Replace(monitor, "selector: {}, ", "", 1),
		"a monitor with an unknown scheme": strings.Replace(monitor, "scheme: http", "scheme: tcp", 1),
		"a kind without a schema":          strings.Replace(good, "StatefulSet", "StatefulSets", 1),
	} {
		if bad == good || bad == monitor {
			t.Errorf("%s: nothing was spoiled", name)
		}
		if err := checkSchema(bad); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

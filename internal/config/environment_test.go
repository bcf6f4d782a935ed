package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// JVMFLAGS stands behind SERVER_JVMFLAGS on Java's command line, and the command line of
// pinfold behind both.
func TestEnvironment(t *testing.T) {
	s := Source{
		Environ: Environment{
			Server: "-Xmx1g -Djute.maxbuffer=1000 -Dzookeeper.snapCount=10",
			JVM:    "-Djute.maxbuffer=2000 -Dzookeeper.preAllocSize=7",
		},
		Flags: []string{"-Dzookeeper.preAllocSize=8"},
	}
	c, warnings, err := s.Load()
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if c.Client.MaxFrameBytes != 2000 || c.Snapshot.Count != 10 || c.Log.PreAllocBytes != 8<<10 {
		t.Errorf("jute.maxbuffer=%d snapCount=%d preAllocSize=%d", c.Client.MaxFrameBytes, c.Snapshot.Count, c.Log.PreAllocBytes)
	}
}

// What Apache's scripts would have handed to the server, and nobody reads here, is named.
func TestUnreadSettings(t *testing.T) {
	file := writeFile(t, "zoo.cfg", "dataDir=/data\nclientPort=2181\nsnapCount=1000\n")
	dir := filepath.Dir(file)
	for name, text := range map[string]string{
		"java.env":    "# -Djute.maxbuffer=1\nexport JVMFLAGS=\"-Xmx1g -Djute.maxbuffer=4194304 $JVMFLAGS\"\n",
		"environment": "JAVA=/usr/bin/java\nJAVA_OPTS=\"-Dzookeeper.snapCount=1000 -Dcom.sun.management.jmxremote -Dzookeeper.extendedTypesEnabled=true\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := Source{File: file, Environ: Environment{Java: "-Xmx2g -Dzookeeper.forceSync=no"}}
	_, warnings, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, strings.TrimPrefix(w.Where, dir+"/")+" "+w.Key)
	}
	want := []string{"JAVA_OPTS zookeeper.forceSync", "java.env:2 jute.maxbuffer", "environment:2 zookeeper.extendedTypesEnabled"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestJVMWord(t *testing.T) {
	for _, word := range []string{"-Xmx2g", "-XX:+UseG1GC", "-server", "-javaagent:jmx.jar=7070:c.yml", "--add-opens=java.base/java.io=ALL-UNNAMED"} {
		if !JVMWord(word) {
			t.Errorf("%s is not taken for a word of a JVM", word)
		}
	}
	for _, word := range []string{"-Da=b", "--port=1", "-v", "zoo.cfg", "--data", "-h"} {
		if JVMWord(word) {
			t.Errorf("%s is taken for a word of a JVM", word)
		}
	}
}

func TestExplain(t *testing.T) {
	for _, key := range []string{"snapCount", "zookeeper.snapCount", "-Dzookeeper.snapCount=5"} {
		all, near := Explain(key)
		if len(all) != 1 || all[0].Name != "snapCount" || !all[0].File || all[0].Flag != "-Dzookeeper.snapCount" ||
			all[0].Default != "100000" || all[0].Effect != "honoured" || all[0].Section != "Snapshots and purging" || near != "" {
			t.Errorf("%s: %+v, %q", key, all, near)
		}
	}
	if all, _ := Explain("jute.maxbuffer"); len(all) != 1 || all[0].File || all[0].Flag != "-Djute.maxbuffer" {
		t.Errorf("jute.maxbuffer: %+v", all)
	}
	if all, _ := Explain("multiAddress.enabled"); len(all) != 2 {
		t.Errorf("multiAddress.enabled: %+v", all)
	}
	if all, near := Explain("snapCuont"); len(all) != 0 || near != "snapCount" {
		t.Errorf("snapCuont: %+v, %q", all, near)
	}
}

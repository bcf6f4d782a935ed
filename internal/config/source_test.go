package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeFile makes a file of a test, and returns its name.
func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Settings override the file and the properties, without a warning.
func TestSettingsOverride(t *testing.T) {
	file := writeFile(t, "zoo.cfg", "tickTime=3000\ntickTime=4000\ndataDir=/data\nclientPort=2181\nsnapCount=1000\nsyncLimit=3\n")
	s := Source{
		File: file, Flags: []string{"-Djute.maxbuffer=100000", "-Dzookeeper.forceSync=no"}, Environ: Environment{Server: "-Dzookeeper.forceSync=no"},
		Settings: map[string]string{
			"tickTime": "500", "zookeeper.snapCount": "77", "jute.maxbuffer": "200000", "forceSync": "yes", "maxClientCnxns": "5",
		},
	}
	c, warnings, err := s.Load()
	if err != nil || len(warnings) > 0 {
		t.Fatal(warnings, err)
	}
	if c.Session.Tick != 500*time.Millisecond || c.Snapshot.Count != 77 || c.Client.MaxFrameBytes != 200000 || !c.Log.ForceSync ||
		c.Client.MaxPerIP != 5 || c.Quorum.SyncLimit != 3 || c.Data.Dir != "/data" {
		t.Errorf("%+v", c)
	}
}

func TestSettingsWithoutAFile(t *testing.T) {
	none, _, err := (&Source{Settings: map[string]string{}}).Load()
	if err != nil || none.Client.Addr() != "127.0.0.1:2181" || none.Data.Dir != "./pinfold-data" {
		t.Errorf("%+v, %v", none, err)
	}
	c, _, err := (&Source{Settings: map[string]string{"clientPort": "7", "dataDir": "/d"}}).Load()
	if err != nil || c.Client.Addr() != ":7" || c.Data.Dir != "/d" || c.Data.LogDir != "/d" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, tt := range []struct {
		settings map[string]string
		want     string
	}{
		{map[string]string{"tickTime": "soon"}, "settings: tickTime=soon: "},
		{map[string]string{"clientPortAddress": "127.0.0.1"}, "settings: clientPortAddress=127.0.0.1: needs clientPort"},
		{map[string]string{"server.1": "a:1:2", "server.2": "b:1:2"}, "settings: initLimit: is not set; an ensemble needs it"},
	} {
		if _, _, err := (&Source{Settings: tt.settings}).Load(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.settings, err, tt.want)
		}
	}
	if _, warnings, err := (&Source{Settings: map[string]string{"tickTmie": "1"}}).Load(); err != nil || len(warnings) != 1 ||
		warnings[0].String() != "settings: tickTmie: is unknown and has no effect; did you mean tickTime?" {
		t.Errorf("%v, %v", warnings, err)
	}
}

// The number of a server need not be in a file.
func TestSourceID(t *testing.T) {
	id := int64(2)
	s := Source{ID: &id, Settings: map[string]string{
		"server.1": "a:1:2", "server.2": "b:1:2:observer", "server.3": "c:1:2", "initLimit": "5", "syncLimit": "2",
	}}
	c, _, err := s.Load()
	if err != nil || c.Quorum.MyID != 2 || c.Quorum.Own() == nil || !c.Quorum.Observer {
		t.Fatalf("%+v, %v", c, err)
	}
	for id, want := range map[int64]string{-1: "settings: myid=-1: is not a server's number", 4: "settings: myid=4: there is no server line with this number"} {
		s.ID = &id
		if _, _, err := s.Load(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d: %v, want %q", id, err, want)
		}
	}
}

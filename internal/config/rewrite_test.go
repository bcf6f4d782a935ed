package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRewritten(t *testing.T) {
	tests := []struct {
		name      string
		text      string
		hasClient bool
		want      string
		had       bool
	}{
		{name: "empty", want: "dynamicConfigFile=/d/zoo.cfg.dynamic.1\n"},
		{
			name: "a static file", had: true, hasClient: true,
			text: "# ours\ntickTime=2000\nserver.1=a:1:2\n server.2 : b\\\n  :1:2\n\n# the port\nclientPort=2181\nclientPortAddress a\npeerType=observer\n" +
				"weight.1=2\ngroup.1=1\nversion=5\ninitLimit=5",
			want: "# ours\ntickTime=2000\n\n# the port\ninitLimit=5\ndynamicConfigFile=/d/zoo.cfg.dynamic.1\n",
		},
		{
			name: "not the first change",
			text: "clientPort=2181\r\ndynamicConfigFile=/d/zoo.cfg.dynamic.0\r\n! a comment \\\r\nsyncLimit=2\r\n",
			want: "clientPort=2181\r\n! a comment \\\r\nsyncLimit=2\r\ndynamicConfigFile=/d/zoo.cfg.dynamic.1\n",
		},
		{name: "the members at the end", had: true, text: "syncLimit=2\nserver.1=a:1:2", want: "syncLimit=2\ndynamicConfigFile=/d/zoo.cfg.dynamic.1\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, had := Rewritten([]byte(tt.text), "/d/zoo.cfg.dynamic.1", tt.hasClient)
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || had != tt.had {
				t.Errorf("had members: %v; -want +got:\n%s", had, diff)
			}
		})
	}
	got, _ := Rewritten(nil, `/ü\😀/z`, false)
	values, err := Properties(got)
	if err != nil || values["dynamicConfigFile"] != `/ü\😀/z` {
		t.Errorf("%s is read as %q, %v", got, values["dynamicConfigFile"], err)
	}
}

func TestDynamicFile(t *testing.T) {
	m := membersOf(t, "server.10=j:1:2;3", "server.2=b:1:2:observer", "server.1=a:1:2", "weight.1=1", "group.1=1:10", "weight.10=1")
	m.Version = 0x10000000a
	name, content := m.DynamicFile("/d/zoo.cfg")
	want := "group.1=1:10\nserver.10=j:1:2:participant;0.0.0.0:3\nserver.1=a:1:2:participant\nserver.2=b:1:2:observer\nweight.10=1\nweight.1=1"
	if name != "/d/zoo.cfg.dynamic.10000000a" || string(content) != want {
		t.Errorf("%s\n%s", name, content)
	}
}

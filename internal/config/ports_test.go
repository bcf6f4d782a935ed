package config

import (
	"fmt"
	"slices"
	"testing"
)

// How each port is protected.
func TestPorts(t *testing.T) {
	const stores = "dataDir=/d\nssl.keyStore.location=/k.pem\nssl.quorum.keyStore.location=/k.pem\nssl.quorum.trustStore.location=/t.pem\n"
	const members = "initLimit=5\nsyncLimit=5\nserver.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\nclientPort=1\n"
	for _, c := range []struct {
		file string
		want []string
	}{
		{"clientPort=2181\n", []string{"clients :2181 without TLS"}},
		{"secureClientPort=2281\n", []string{"clients :2281 TLS 1.3 with a certificate"}},
		{"clientPort=2181\nsecureClientPort=2281\nssl.clientAuth=none\nssl.enabledProtocols=TLSv1.2\n",
			[]string{"clients :2181 without TLS", "clients :2281 TLS 1.2 without a certificate"}},
		{"clientPort=2181\nclient.portUnification=true\nssl.clientAuth=want\nssl.enabledProtocols=TLSv1.2,TLSv1.3\n",
			[]string{"clients :2181 without TLS, or TLS 1.2 or 1.3, with a certificate or without"}},
		{members, []string{"clients :1 without TLS", "peers a:2888 without TLS", "elections a:3888 without TLS"}},
		{members + "sslQuorum=true\nportUnification=true\n", []string{"clients :1 without TLS", "peers a:2888 without TLS, or TLS 1.2 or 1.3 with a certificate",
			"elections a:3888 without TLS, or TLS 1.2 or 1.3 with a certificate"}},
		{members + "sslQuorum=true\nssl.quorum.verifyPeers=true\nquorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n",
			[]string{"clients :1 without TLS", "peers a:2888 TLS 1.2 or 1.3 with a certificate of that server, and a login",
				"elections a:3888 TLS 1.2 or 1.3 with a certificate of that server, and a login"}},
		{"clientPort=1\nadmin.enableServer=true\nadmin.serverPort=8080\nadmin.portUnification=true\nmetricsProvider.className=" + prometheusProvider + "\nmetricsProvider.httpPort=7000\n",
			[]string{"clients :1 without TLS", "admin 0.0.0.0:8080 without TLS, or TLS 1.2 or 1.3 without a certificate", "metrics :7000 without TLS"}},
		{"clientPort=1\nadmin.enableServer=true\nadmin.serverAddress=h\nadmin.forceHttps=true\nadmin.needClientAuth=true\n",
			[]string{"clients :1 without TLS", "admin h:8080 TLS 1.2 or 1.3 with a certificate"}},
	} {
		id := int64(1)
		inDir(t, map[string]string{"zoo.cfg": stores + c.file})
		cfg, _, err := (&Source{File: "zoo.cfg", ID: &id, Flags: []string{"-Djava.security.auth.login.config=/j"}}).Load()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range cfg.Ports() {
			got = append(got, fmt.Sprint(p.For, " ", p.Addr, " ", p.Protection))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s\ngot  %q\nwant %q", c.file, got, c.want)
		}
	}
}

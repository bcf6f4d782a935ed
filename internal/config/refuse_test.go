package config

import (
	"testing"
)

// base is a file that is accepted as it is.
const base = "dataDir=data\nclientPort=2181\n"

// TestReports holds the texts that operators read. What is refused here for its
// syntax or for a rule, Apache 3.8.0 refuses too, unless the case says else.
func TestReports(t *testing.T) {
	tests := []struct {
		name    string
		file    string
		flags   []string
		environ string
		want    string
	}{
		{name: "fine", file: base},

		// Values.
		{name: "not a number", file: base + "tickTime=abc",
			want: "error zoo.cfg:3: tickTime=abc: not a whole number of milliseconds\n"},
		{name: "no value", file: base + "tickTime=",
			want: "error zoo.cfg:3: tickTime: not a whole number of milliseconds\n"},
		{name: "hex in a key of the file", file: base + "tickTime=0x10",
			want: "error zoo.cfg:3: tickTime=0x10: not a whole number of milliseconds\n"},
		{name: "tick of nothing", file: base + "tickTime=0", want: "error zoo.cfg:3: tickTime=0: must be 1 or more\n"},
		{name: "more than an int", file: base + "maxSessionTimeout=9999999999",
			want: "error zoo.cfg:3: maxSessionTimeout=9999999999: must be between -1 and 2147483647\n"},
		{name: "more than a long", file: base + "snapSizeLimitInKb=99999999999999999999",
			want: "error zoo.cfg:3: snapSizeLimitInKb=99999999999999999999: must be between -9007199254740991 and 9007199254740991\n"},
		{name: "port", file: "dataDir=data\nclientPort=70000", want: "error zoo.cfg:2: clientPort=70000: must be between 0 and 65535\n"},
		{name: "not a boolean", file: base + "standaloneEnabled=yes", want: "error zoo.cfg:3: standaloneEnabled=yes: not true or false\n"},
		{name: "Apache takes any other word for false", file: base + "digest.enabled=on",
			want: "error zoo.cfg:3: digest.enabled=on: not true or false\n"},
		{name: "Apache takes any other word for yes", file: base + "forceSync=false", want: "error zoo.cfg:3: forceSync=false: not yes or no\n"},
		{name: "not a fraction", file: base + "connection_throttle_drop_increase=2",
			want: "error zoo.cfg:3: connection_throttle_drop_increase=2: must be between 0 and 1\n"},
		{name: "NaN", file: base + "connection_throttle_drop_increase=NaN",
			want: "error zoo.cfg:3: connection_throttle_drop_increase=NaN: not a number\n"},
		{name: "compression", file: base + "snapshot.compression.method=zip",
			want: "error zoo.cfg:3: snapshot.compression.method=zip: is not gz or snappy\n"},
		{name: "octal", flags: []string{"-Dzookeeper.snapCount=0100"},
			want: "error command line: zookeeper.snapCount=0100: starts with 0, which reads as octal or as decimal\n"},
		{name: "bad hex", flags: []string{"-Djute.maxbuffer=0x-5"}, want: "error command line: jute.maxbuffer=0x-5: not a whole number\n"},
		{name: "environment", environ: `-Xmx1g "-Dzookeeper.maxCnxns=a b"`, want: "error SERVER_JVMFLAGS: zookeeper.maxCnxns=a b: not a whole number\n"},
		{name: "control characters are shown", file: base + `tickTime=1\n2`,
			want: `error zoo.cfg:3: tickTime="1\n2": not a whole number of milliseconds` + "\n"},
		{name: "secrets are not", flags: []string{"-Dzookeeper.DigestAuthenticationProvider.superDigest=secret"},
			want: "error command line: zookeeper.DigestAuthenticationProvider.superDigest: not of the form user:base64\n"},
		{name: "all at once, in order", file: base + "tickTime=x\nelectionAlg=1\npeerType=king", flags: []string{"-Djute.maxbuffer=-1"},
			want: "error zoo.cfg:3: tickTime=x: not a whole number of milliseconds\n" +
				"error zoo.cfg:4: electionAlg=1: not one of 3\n" +
				"error zoo.cfg:5: peerType=king: is not participant or observer\n" +
				"error command line: jute.maxbuffer=-1: must be 64 or more\n"},
		{name: "syntax", file: base + `a=\u12g4`, want: `error zoo.cfg:3: malformed \uXXXX escape` + "\n"},
		{name: "purge interval", file: base + "autopurge.purgeInterval=1w",
			want: "error zoo.cfg:3: autopurge.purgeInterval=1w: not a whole number of hours, nor a number with ms, s, m, h or d\n"},
		{name: "purge interval beyond time", file: base + "autopurge.purgeInterval=999999999d",
			want: "error zoo.cfg:3: autopurge.purgeInterval=999999999d: too long\n"},

		// Rules over several settings.
		{name: "no directory", file: "clientPort=1", want: "error zoo.cfg: dataDir: is not set\n"},
		{name: "empty directory", file: "dataDir=\nclientPort=1", want: "error zoo.cfg:1: dataDir: is empty\n"},
		{name: "no port; Apache starts and serves no one", file: "dataDir=data", want: "error zoo.cfg: clientPort: is not set; no client could connect\n"},
		{name: "address without port", file: "dataDir=data\nclientPortAddress=127.0.0.1",
			want: "error zoo.cfg:2: clientPortAddress=127.0.0.1: needs clientPort\n"},
		{name: "timeouts crossed", file: base + "minSessionTimeout=50000\nmaxSessionTimeout=4000",
			want: "error zoo.cfg:4: maxSessionTimeout: minSessionTimeout is 50000 ms and maxSessionTimeout is 4000 ms\n"},
		{name: "timeout beyond the default", file: base + "minSessionTimeout=70000",
			want: "error zoo.cfg:3: minSessionTimeout: minSessionTimeout is 70000 ms and maxSessionTimeout is 60000 ms\n"},

		// Names.
		{name: "case", file: base + "ticktime=5", want: "warning zoo.cfg:3: ticktime: is unknown and has no effect; did you mean tickTime?\n"},
		{name: "letters swapped", file: base + "snapCuont=5", want: "warning zoo.cfg:3: snapCuont: is unknown and has no effect; did you mean snapCount?\n"},
		{name: "nothing near", file: base + "foo=5", want: "warning zoo.cfg:3: foo: is unknown and has no effect\n"},
		{name: "repeated", file: base + "snapCount=5\nsnapCount=6", want: "warning zoo.cfg:3: snapCount: is set again in line 4, which counts\n"},
		{name: "only -D", file: base + "jute.maxbuffer=5000",
			want: "warning zoo.cfg:3: jute.maxbuffer: has no effect in a file; set it as -Djute.maxbuffer=...\n"},
		{name: "prefix in the file", file: base + "zookeeper.snapCount=5",
			want: "warning zoo.cfg:3: zookeeper.snapCount: has no effect; in a file, write it without zookeeper., as snapCount\n"},
		{name: "unknown property", flags: []string{"-Dzookeeper.snapcount=5"},
			want: "warning command line: zookeeper.snapcount: is unknown and has no effect; did you mean zookeeper.snapCount?\n"},
		{name: "prefix misspelt", flags: []string{"-Dzookeper.snapCount=5"},
			want: "warning command line: zookeper.snapCount: is unknown and has no effect; did you mean zookeeper.snapCount?\n"},
		{name: "prefix missing", flags: []string{"-DsnapCount=5"},
			want: "warning command line: snapCount: has no effect without its prefix: -Dzookeeper.snapCount=...\n"},
		{name: "prefix too much", flags: []string{"-Dzookeeper.jute.maxbuffer=5000"},
			want: "warning command line: zookeeper.jute.maxbuffer: has no effect; write it without zookeeper., as -Djute.maxbuffer=...\n"},
		{name: "only the file", flags: []string{"-Dzookeeper.tickTime=5", "-DtickTime=5"},
			want: "warning command line: zookeeper.tickTime: has no effect as a property; tickTime is a key of zoo.cfg\n" +
				"warning command line: tickTime: has no effect as a property; tickTime is a key of zoo.cfg\n"},
		{name: "bare misspelt", flags: []string{"-Djute.maxbufer=5000"},
			want: "warning command line: jute.maxbufer: is unknown and has no effect; did you mean jute.maxbuffer?\n"},
		{name: "for the JVM", flags: []string{"-Dcom.sun.management.jmxremote", "-Dlog4j.configuration=x", "-Xmx1g", "-Djava.net.preferIPv4Stack=true"}},

		// Effects.
		{name: "accepted", file: base + "netty.advancedFlowControl.enabled=true\nnio.numWorkerThreads=4\nadmin.serverPort=8081\n" +
			"jvm.pause.monitor=true\nadmin.enableServer=false\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
			flags: []string{"-Dzookeeper.log.dir=/x", "-Dzookeeper.jmx.log4j.disable=true"}},
		{name: "accepted and wrong", file: base + "nio.numWorkerThreads=many", want: "error zoo.cfg:3: nio.numWorkerThreads=many: not a whole number\n"},
		{name: "exporter", file: base + "metricsProvider.className=" + prometheusProvider + "\nmetricsProvider.httpPort=7001\n" +
			"metricsProvider.exportJvmInfo=false\nmetricsProvider.maxQueueSize=5\nmetricsProvider.httpsPort=-1"},
		{name: "exporter over TLS", file: base + "metricsProvider.httpsPort=7443\nmetricsProvider.ssl.keyStore.location=/k",
			want: "error zoo.cfg:3: metricsProvider.httpsPort=7443: the metrics cannot be served over TLS yet: remove the key, and let a proxy terminate TLS\n" +
				"error zoo.cfg:4: metricsProvider.ssl.keyStore.location=/k: the metrics cannot be served over TLS yet: remove the key, and let a proxy terminate TLS\n"},
		{name: "another exporter", file: base + "metricsProvider.className=org.example.Provider\nmetricsProvider.httpport=7001",
			want: "warning zoo.cfg:4: metricsProvider.httpport: is unknown and has no effect; did you mean metricsProvider.httpPort?\n" +
				"error zoo.cfg:3: metricsProvider.className=org.example.Provider: not one of " + defaultProvider + ", " + nullProvider + ", " + prometheusProvider + "\n"},
		{name: "missing", file: base + "ssl.allowReverseDnsLookup=true",
			want: "warning zoo.cfg:3: ssl.allowReverseDnsLookup: has no effect here: the address alone counts\n"},
		{name: "refused", file: base + "secureClientPort=2281\nssl.quorum.crl=maybe\naudit.impl.class=org.example.Logger\n" +
			"authProvider.1=org.example.Provider\nclient.portUnification=true",
			want: "error zoo.cfg:4: ssl.quorum.crl=maybe: not true or false\n" +
				"error zoo.cfg:5: audit.impl.class=org.example.Logger: not one of " + slf4jAudit + ", " + log4jAudit + "\n" +
				"error zoo.cfg:6: authProvider.1=org.example.Provider: " +
				"Java classes cannot be loaded. The built-in providers digest and ip are always enabled; x509 comes with a TLS port; the classes of x509, sasl and ensemble enable these\n" +
				"error zoo.cfg: ssl.keyStore.location: is not set; secureClientPort needs it\n"},
		{name: "logins of servers", file: base + "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\n" +
			"quorum.auth.serverRequireSasl=true\nquorum.auth.server.saslLoginContext=S\nquorum.auth.learner.saslLoginContext=L\n" +
			"quorum.cnxn.threads.size=20", flags: []string{"-Djava.security.auth.login.config=/jaas"}},
		{name: "logins of servers on a standalone server", file: base + "quorum.auth.enableSasl=true"},
		{name: "logins required and off", file: base + "quorum.auth.learnerRequireSasl=true",
			want: "error zoo.cfg:3: quorum.auth.learnerRequireSasl=true: needs quorum.auth.enableSasl=true\n"},
		{name: "logins required of others and off", file: base + "quorum.auth.serverRequireSasl=true",
			want: "error zoo.cfg:3: quorum.auth.serverRequireSasl=true: needs quorum.auth.enableSasl=true\n"},
		{name: "logins required of others alone", file: base + "quorum.auth.enableSasl=true\nquorum.auth.serverRequireSasl=true",
			flags: []string{"-Djava.security.auth.login.config=/jaas"},
			want:  "error zoo.cfg:4: quorum.auth.serverRequireSasl=true: needs quorum.auth.learnerRequireSasl=true\n"},
		{name: "administration server", file: base + "admin.enableServer=true\nadmin.forceHttps=true\nadmin.portUnification=true\n" +
			"admin.needClientAuth=true\nadmin.commandURL=/readyz",
			want: "error zoo.cfg:7: admin.commandURL=/readyz: is the path of another page\n" +
				"error zoo.cfg: ssl.quorum.keyStore.location: is not set; admin.forceHttps or admin.portUnification needs it\n"},
		{name: "path of the commands", file: base + "admin.commandURL=/commands/",
			want: "error zoo.cfg:3: admin.commandURL=/commands/: must be a path that begins with / and does not end with it\n"},
		{name: "refused features turned off", file: base + "ssl.quorum.crl=false\naudit.enable=FALSE\nenforce.auth.enabled=false\n" +
			"authProvider.1=org.apache.zookeeper.server.auth.IPAuthenticationProvider"},
		{name: "dangerous", file: base + "forceSync=no\nskipACL=yes\nsnapshot.trust.empty=true",
			want: "warning zoo.cfg:3: forceSync: no: acknowledged writes are LOST if the machine crashes\n" +
				"warning zoo.cfg:4: skipACL: yes: every client may read, change and delete every znode\n" +
				"warning zoo.cfg:5: snapshot.trust.empty: true: a lost snapshot is not noticed; turn it off after the upgrade\n"},
		{name: "raised", file: base + "snapCount=1\nautopurge.snapRetainCount=1\ncommitLogCount=3",
			want: "warning zoo.cfg:3: snapCount: 1 is too small; 2 is used\n" +
				"warning zoo.cfg:4: autopurge.snapRetainCount: 1 is too small; 3 is used\n" +
				"warning zoo.cfg:5: commitLogCount: 3 is too small; 500 is used\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inDir(t, map[string]string{"zoo.cfg": tt.file})
			name := "zoo.cfg"
			if tt.file == "" {
				name = ""
			}
			c, warnings, err := Load(name, tt.flags, tt.environ)
			if got := report(warnings, err); got != tt.want {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
			if (c == nil) != (err != nil) {
				t.Errorf("config %v with error %v", c, err)
			}
		})
	}
}

// The text of a file is shown without the values that are secret, whatever form they have.
func TestWithoutSecrets(t *testing.T) {
	const text = "a=1\r\nssl.keyStore.password=x\n# password=kept, a comment\nDigestAuthenticationProvider.superDigest: super:\\\n  secret\\\n  more\nssl.keyStore.passwordPath=/p\rlast.password y"
	const want = "a=1\nssl.keyStore.password=***\n# password=kept, a comment\nDigestAuthenticationProvider.superDigest=***\nssl.keyStore.passwordPath=/p\nlast.password=***\n"
	if got := WithoutSecrets(text); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

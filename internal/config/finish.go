package config

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// members reads the server, group and weight lines, of zoo.cfg or of the
// dynamic file, and the server's own id.
//
// REQUIRES: file has been called.
func (l *loader) members() {
	q := &l.config.Quorum
	dynamic := q.DynamicFile != ""
	for _, p := range l.ensemble {
		if dynamic {
			l.fail(l.places[p.key], p.key, p.value, "belongs in the dynamic file, because dynamicConfigFile is set")
			continue
		}
		l.member(l.places[p.key], p.key, p.value)
	}
	if dynamic {
		l.dynamicFile(q.DynamicFile)
	}
	if len(q.Members.Servers) > 0 && l.config.Data.Dir != "" {
		l.myID(filepath.Join(l.config.Data.Dir, "myid"))
	}
}

// member takes one line of the ensemble's configuration.
func (l *loader) member(where, key, value string) {
	q := &l.config.Quorum
	if err := q.Members.add(key, value, q.MultiAddress); err != nil {
		l.fail(where, key, value, err.Error())
	}
}

// dynamicFile reads the members from a file of their own. Its suffix after the
// last dot is the version, if it is a number in hex.
func (l *loader) dynamicFile(name string) {
	text, err := readFile(name)
	if err != nil {
		l.fail(l.places["dynamicConfigFile"], "dynamicConfigFile", name, err.Error())
		return
	}
	lines, err := parseProperties(text)
	if err != nil {
		l.errs = append(l.errs, syntaxError(name, err))
		return
	}
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		if v, err := strconv.ParseInt(name[i+1:], 16, 64); err == nil {
			l.config.Quorum.Members.Version = v
		}
	}
	for _, p := range lines {
		where := fmt.Sprintf("%s:%d", name, p.line)
		key, value := strings.TrimSpace(p.key), strings.TrimSpace(p.value)
		switch {
		case key == "version":
			l.fail(where, key, value, "the version is in the name of the file, not in it")
		case !isMemberKey(key):
			l.fail(where, key, value, "only server, group and weight lines belong in a dynamic file")
		default:
			l.places[key] = where
			l.member(where, key, value)
		}
	}
}

// myID reads the server's id. A file that is not there is an error only in an
// ensemble.
func (l *loader) myID(name string) {
	text, err := readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.fail(name, "myid", "", err.Error())
		return
	}
	first, _, _ := strings.Cut(string(text), "\n")
	id, err := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	if err != nil {
		l.fail(name, "myid", strings.TrimSpace(first), "not a server's number")
		return
	}
	l.config.Quorum.MyID, l.config.Quorum.HasMyID = id, true
}

// finish fills in what depends on other settings, and applies the rules that
// concern several.
func (l *loader) finish() {
	l.finishQuorum()
	l.finishClient()
	l.finishData()
	l.finishSessions()
	l.finishAuth()
	l.derive()
	l.shout()
}

// isSet reports whether a key of zoo.cfg or a full property name was given.
func (l *loader) isSet(name string) bool { return l.places[name] != "" }

func (l *loader) finishQuorum() {
	q := &l.config.Quorum
	where := l.config.File
	if len(q.Members.Servers) > 0 {
		where = l.places[fmt.Sprintf("server.%d", q.Members.Servers[0].ID)]
	}
	if err := q.check(); err != nil {
		l.fail(where, "server", "", err.Error())
		return
	}
	if !q.Distributed() {
		if n := len(q.Members.Servers); n > 0 {
			l.warn(where, fmt.Sprintf("server.%d", q.Members.Servers[0].ID),
				"the only server; it is ignored, the server runs standalone")
		}
		return
	}
	ensemble := "standaloneEnabled=false makes one server an ensemble"
	if n := q.Members.Voters(); n > 1 {
		ensemble = fmt.Sprintf("%d participants are an ensemble", n)
	}
	l.fail(where, "server", "", ensemble+"; ensembles are not supported yet")
	if q.InitLimit == 0 {
		l.fail(l.config.File, "initLimit", "", "not set; an ensemble needs it")
	}
	if q.SyncLimit == 0 {
		l.fail(l.config.File, "syncLimit", "", "not set; an ensemble needs it")
	}
	if !q.HasMyID && l.config.Data.Dir != "" {
		l.fail(filepath.Join(l.config.Data.Dir, "myid"), "myid", "", "the file is missing; an ensemble needs it")
	}
}

// finishClient settles the client's address between zoo.cfg and the server's
// own line.
func (l *loader) finishClient() {
	c := &l.config.Client
	if l.config.File == "" {
		c.Host, c.Port = "127.0.0.1", 2181
		return
	}
	set := l.isSet("clientPort")
	if !set && l.isSet("clientPortAddress") {
		l.fail(l.places["clientPortAddress"], "clientPortAddress", c.Host, "needs clientPort")
		return
	}
	own := l.config.Quorum.Members.Find(l.config.Quorum.MyID)
	if own != nil && l.config.Quorum.HasMyID && own.HasClient {
		l.ownAddress(own, set)
		return
	}
	if !set && !l.config.Quorum.Distributed() {
		l.fail(l.config.File, "clientPort", "", "not set; no client could connect")
	}
}

// ownAddress takes the address of the server's own line, which must agree with
// zoo.cfg if that has one: in host and port, or in the port alone if zoo.cfg
// says every address.
func (l *loader) ownAddress(own *Member, set bool) {
	c := &l.config.Client
	anyHost := c.Host == "" || c.Host == "0.0.0.0" || c.Host == "::"
	if set && (c.Port != own.ClientPort || !anyHost && c.Host != own.ClientHost) {
		l.fail(l.places[fmt.Sprintf("server.%d", own.ID)], fmt.Sprintf("server.%d", own.ID), "",
			fmt.Sprintf("client address %s:%d is not clientPort and clientPortAddress, %s",
				own.ClientHost, own.ClientPort, c.Addr()))
		return
	}
	c.Host, c.Port = own.ClientHost, own.ClientPort
	if c.Host == "0.0.0.0" {
		c.Host = ""
	}
}

func (l *loader) finishData() {
	d := &l.config.Data
	switch {
	case l.config.File == "":
		d.Dir = "./pinfold-data"
	case !l.isSet("dataDir"):
		l.fail(l.config.File, "dataDir", "", "not set")
	}
	if d.LogDir == "" {
		d.LogDir = d.Dir
	}
}

func (l *loader) finishSessions() {
	s := &l.config.Session
	if s.MinTimeout < 0 {
		s.MinTimeout = 2 * s.Tick
	}
	if s.MaxTimeout < 0 {
		s.MaxTimeout = 20 * s.Tick
	}
	if s.MinTimeout <= s.MaxTimeout {
		return
	}
	key := "maxSessionTimeout"
	if !l.isSet(key) {
		key = "minSessionTimeout"
	}
	l.fail(l.places[key], key, "", fmt.Sprintf("minSessionTimeout is %d ms and maxSessionTimeout is %d ms",
		s.MinTimeout.Milliseconds(), s.MaxTimeout.Milliseconds()))
}

// finishAuth checks that what is enforced can be had. A scheme that is not there
// would shut everybody out; Apache does not start with it either.
func (l *loader) finishAuth() {
	a := &l.config.Auth
	key := "enforce.auth.schemes"
	switch {
	case a.RequireSASL:
		key = "sessionRequireClientSASLAuth"
	case a.Enforce && len(a.EnforceSchemes) == 0:
		l.fail(l.places["zookeeper.enforce.auth.enabled"], "enforce.auth.enabled", "true", "needs enforce.auth.schemes")
	}
	where := l.places["zookeeper."+key]
	for _, scheme := range a.Enforced() {
		if scheme == "ip" || scheme == "digest" && a.DigestEnabled || scheme == "sasl" && a.SASL.Provider {
			continue
		}
		reason := fmt.Sprintf("there is no scheme %q", scheme)
		if scheme == "sasl" {
			reason += " without authProvider.1=" + saslProvider
		}
		l.fail(where, key, l.config.Properties["zookeeper."+key], reason)
	}
	if slices.Equal(a.Enforced(), []string{"sasl"}) && a.SASL.LoginFile == "" {
		l.warn(where, key, "no client can log in: -Djava.security.auth.login.config is not set")
	}
}

// derive computes defaults that are other settings.
func (l *loader) derive() {
	c := l.config
	if !l.isSet("zookeeper.jute.maxbuffer.extrasize") {
		c.Client.ExtraBytes = c.Client.MaxFrameBytes
	}
	c.Client.ExtraBytes = max(c.Client.ExtraBytes, 1024)
	if c.Quorum.ConnectLimit == 0 {
		c.Quorum.ConnectLimit = c.Quorum.InitLimit
	}
	// Apache's own scripts live by these two, so a list cannot take them away.
	need := []string{"srvr"}
	if c.Quorum.ReadOnlyMode {
		need = append(need, "isro")
	}
	for _, word := range need {
		if !c.Commands.Allows(word) {
			c.Commands.Allowed = append(c.Commands.Allowed, word)
		}
	}
	if slices.Contains(c.Commands.Allowed, "*") {
		c.Commands.Allowed = []string{"*"}
	}
}

// shout warns of settings that are honoured and dangerous, and of values that
// were raised to their least.
func (l *loader) shout() {
	c := l.config
	l.raised("zookeeper.snapCount", c.Snapshot.Count)
	l.raised("autopurge.snapRetainCount", c.Purge.Retain)
	l.raised("zookeeper.commitLogCount", c.Log.CommitLogCount)
	if !c.Log.ForceSync {
		l.shoutAt("zookeeper.forceSync", "no: acknowledged writes are LOST when the machine crashes")
	}
	if c.Auth.SkipACL {
		l.shoutAt("zookeeper.skipACL", "yes: every client may read, change and delete every znode")
	}
	if c.Snapshot.TrustEmpty {
		l.shoutAt("zookeeper.snapshot.trust.empty", "true: lost snapshots go unnoticed; turn it off after the upgrade")
	}
}

func (l *loader) shoutAt(key, text string) {
	l.warn(l.places[key], strings.TrimPrefix(key, "zookeeper."), "%s", text)
}

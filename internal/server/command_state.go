package server

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/pinfold-zk/pinfold/internal/replica"
)

// stamp is the commit of a build and its time (RFC 3339), separated by a space. The linker
// sets it (scripts/stamp); if it is empty, Go's own stamp counts.
var stamp string

// Commit returns the commit of which the binary was built, and the time of that commit, as
// far as they are known. They are not in a build outside of a repository.
func Commit() (revision string, at time.Time) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return commitOf(stamp, info)
}

// pseudoVersion matches the end of the version of a module without a tag: time and commit.
var pseudoVersion = regexp.MustCompile(`[-.]([0-9]{14})-([0-9a-f]{12})$`)

// commitOf returns what a stamp of the linker says, or else what Go says: of a build in a repository,
// or of a module that `go install` has fetched by its commit.
func commitOf(stamp string, info *debug.BuildInfo) (revision string, at time.Time) {
	revision, text, _ := strings.Cut(stamp, " ")
	if revision == "" {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				revision = s.Value
			case "vcs.time":
				text = s.Value
			}
		}
	}
	if m := pseudoVersion.FindStringSubmatch(info.Main.Version); m != nil && revision == "" {
		at, _ = time.Parse("20060102150405", m[1]) // zero if it cannot be parsed
		return m[2], at
	}
	at, _ = time.Parse(time.RFC3339, text) // zero if it cannot be parsed
	return revision, at
}

// FullVersion returns the version in the format that monitoring parses: number, commit,
// time of the commit. A build outside of a repository has neither, and says so.
func FullVersion() string {
	revision, at := Commit()
	if revision != "" {
		revision = "-" + revision[:min(len(revision), 12)]
	}
	built := "unknown"
	if !at.IsZero() {
		built = at.UTC().Format("2006-01-02 15:04 MST")
	}
	return Version + revision + ", built on " + built
}

func (t *text) srvr() {
	t.version()
	t.serverStats()
}

func (t *text) stat() {
	t.version()
	t.b = append(t.b, "Clients:\n"...)
	t.eachConn(func(c *conn) { t.connLine(c, false) })
	t.b = append(t.b, '\n')
	t.serverStats()
}

func (t *text) version() {
	t.b = append(append(append(t.b, "Zookeeper version: "...), FullVersion()...), '\n')
	if t.mode == replica.ReadOnly {
		t.b = append(t.b, "READ-ONLY mode; serving only read-only clients\n"...)
	}
}

// serverStats prints the last part of srvr and stat.
func (t *text) serverStats() {
	s := t.c.s.Summary(t.mode)
	t.b = fmt.Appendf(t.b, "Latency min/avg/max: %d/%s/%d\n", s.Latency.Min, Decimal(s.Latency.Average), s.Latency.Max)
	t.b = fmt.Appendf(t.b, "Received: %d\nSent: %d\nConnections: %d\nOutstanding: %d\n",
		s.Received, s.Sent, s.Connections, s.Outstanding)
	t.b = fmt.Appendf(t.b, "Zxid: 0x%x\nMode: %v\nNode count: %d\n", uint64(s.Zxid), t.mode, s.Nodes)
	if t.mode == replica.Leader {
		t.b = fmt.Appendf(t.b, "Proposal sizes last/min/max: %d/%d/%d\n", s.Proposals.Last, s.Proposals.Min, s.Proposals.Max)
	}
}

// Decimal formats a number as Apache does: with one to four decimal places.
func Decimal(v float64) string {
	s := strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
	if !strings.ContainsRune(s, '.') {
		s += ".0"
	}
	return s
}

// connections returns the number of open connections.
func (s *Server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.open
}

func (t *text) crst() {
	t.c.s.ResetConnections()
	t.b = append(t.b, "Connection stats reset.\n"...)
}

func (t *text) srst() {
	t.c.s.ResetStats()
	t.b = append(t.b, "Server stats reset.\n"...)
}

func (t *text) conf() {
	cfg := t.c.s.cfg
	data, log := DataDir(cfg.Data.Dir), DataDir(cfg.Data.LogDir)
	server := int64(0)
	if cfg.Quorum.Distributed() {
		server = cfg.Quorum.MyID
	}
	plain, secure := cfg.Client.Port, -1
	if cfg.Client.Secure {
		secure = cfg.Client.SecurePort
	}
	if cfg.Client.OnlySecure {
		plain = -1
	}
	for _, line := range [...]struct {
		key   string
		value any
	}{
		{"clientPort", plain},
		{"secureClientPort", secure},
		{"dataDir", data},
		{"dataDirSize", sizeOf(data)},
		{"dataLogDir", log},
		{"dataLogSize", sizeOf(log)},
		{"tickTime", cfg.Session.Tick.Milliseconds()},
		{"maxClientCnxns", cfg.Client.MaxPerIP},
		{"minSessionTimeout", cfg.Session.MinTimeout.Milliseconds()},
		{"maxSessionTimeout", cfg.Session.MaxTimeout.Milliseconds()},
		{"clientPortListenBacklog", cfg.Client.Backlog},
		{"serverId", server},
	} {
		t.b = fmt.Appendf(t.b, "%s=%v\n", line.key, line.value)
	}
	if cfg.Quorum.Distributed() {
		t.membership(&cfg.Quorum)
	}
}

// DataDir returns the directory, below a configured one, that has the files.
func DataDir(dir string) string {
	dir = filepath.Join(dir, "version-2")
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir
}

// sizeOf returns the total size of the files of a directory. Files that it cannot read
// do not count.
func sizeOf(dir string) (bytes int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, e := range entries {
		var info fs.FileInfo
		if info, err = e.Info(); err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
	}
	return bytes
}

func (t *text) dirs() {
	data, log := t.c.s.DirSizes()
	t.b = fmt.Appendf(t.b, "datadir_size: %d\nlogdir_size: %d\n", data, log)
}

func (t *text) isro() {
	if t.mode == replica.ReadOnly {
		t.b = append(t.b, "ro"...)
		return
	}
	t.b = append(t.b, "rw"...)
}

func (t *text) hash() {
	if !t.c.s.cfg.Log.DigestEnabled {
		return
	}
	digests, _ := t.c.s.replica.Stats().Digests()
	for _, d := range digests {
		t.b = fmt.Appendf(t.b, "%x: %d\n", uint64(d.Zxid), int64(d.Digest))
	}
}

// defaultTraceMask is Apache's.
const defaultTraceMask = 306

func (t *text) gtmk() { t.b = strconv.AppendInt(t.b, t.c.s.traceMask.Load(), 10) }

// stmk sets the trace mask, for which it reads eight bytes after the word.
func (t *text) stmk() {
	const length = 4 + 8
	for t.c.in.Len() < length {
		if t.err = t.c.in.Fill(); t.err != nil {
			return
		}
	}
	mask := int64(binary.BigEndian.Uint64(t.c.in.Bytes()[4:length]))
	t.c.s.traceMask.Store(mask)
	t.b = strconv.AppendInt(t.b, mask, 10)
}

// envi prints the environment.
func (t *text) envi() {
	t.b = append(t.b, "Environment:\n"...)
	for _, v := range Environment() {
		t.b = append(append(append(append(t.b, v[0]...), '='), v[1]...), '\n')
	}
}

// Environment returns Apache's keys and their values. Those about the Java virtual
// machine have the nearest equivalent here. Some clients read the server's version from
// it. A value that is not known is empty.
func Environment() [][2]string {
	host, _ := os.Hostname()
	executable, _ := os.Executable()
	dir, _ := os.Getwd()
	name, home := "", ""
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	free, most, total := memory()
	return [][2]string{
		{"zookeeper.version", FullVersion()},
		{"host.name", host},
		{"java.version", "none, " + runtime.Version()},
		{"java.vendor", "Pinfold"},
		{"java.home", filepath.Dir(executable)},
		{"java.class.path", executable},
		{"java.library.path", ""},
		{"java.io.tmpdir", os.TempDir()},
		{"java.compiler", "<NA>"},
		{"os.name", strings.ToUpper(runtime.GOOS[:1]) + runtime.GOOS[1:]},
		{"os.arch", runtime.GOARCH},
		{"os.version", kernel()},
		{"user.name", name},
		{"user.home", home},
		{"user.dir", dir},
		{"jvm.memory.free", free},
		{"jvm.memory.max", most},
		{"jvm.memory.total", total},
		{"os.memory.free", free}, // the names of 3.8
		{"os.memory.max", most},
		{"os.memory.total", total},
	}
}

// kernel returns the version of the operating system's kernel, "" if it is not known.
func kernel() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// memory returns, in megabytes, the memory that the process has and does not use, the
// limit of its memory, and all that it has.
func memory() (free, most, total string) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/gomemlimit:bytes"},
	}
	metrics.Read(samples)
	taken := samples[0].Value.Uint64() - samples[1].Value.Uint64()
	megabytes := func(v uint64) string { return strconv.FormatUint(v>>20, 10) + "MB" }
	limit := samples[3].Value.Uint64()
	if limit == math.MaxInt64 {
		limit = max(machineMemory(), taken)
	}
	return megabytes(samples[2].Value.Uint64()), megabytes(limit), megabytes(taken)
}

// machineMemory returns the memory of the machine in bytes, 0 if it is not known.
func machineMemory() uint64 {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kilobytes uint64
	if _, err := fmt.Sscanf(string(b), "MemTotal: %d kB", &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

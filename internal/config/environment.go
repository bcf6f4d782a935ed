package config

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Environment has the variables that Apache's scripts, and Debian's, hand to the JVM.
type Environment struct {
	// Server and JVM are SERVER_JVMFLAGS and JVMFLAGS, each split as by a shell. As in
	// Apache's zkServer.sh, JVMFLAGS follows SERVER_JVMFLAGS, so it overrides it.
	Server, JVM string
	// Java is JAVA_OPTS, which Debian's service reads. Other programs have it too, so it
	// is not read: settings in it cause warnings.
	Java string
}

// ReadEnvironment returns the variables of the process.
func ReadEnvironment() Environment {
	return Environment{Server: os.Getenv("SERVER_JVMFLAGS"), JVM: os.Getenv("JVMFLAGS"), Java: os.Getenv("JAVA_OPTS")}
}

// definitions returns the properties that count, in the order in which a JVM would have
// them.
func (e *Environment) definitions() []definition {
	return append(parseFlags(splitWords(e.Server), "SERVER_JVMFLAGS"), parseFlags(splitWords(e.JVM), "JVMFLAGS")...)
}

// jvmWords are the beginnings of words that are for a JVM, apart from -Dname=value.
var jvmWords = []string{
	"-X", "-agentlib:", "-agentpath:", "-javaagent:", "-verbose:", "-server", "-client", "-d64", "-ea", "-da", "-esa", "-dsa",
	"--add-opens", "--add-exports", "--add-modules", "--add-reads", "--enable-native-access", "--enable-preview", "--illegal-access",
}

// JVMWord reports whether a word of a command line is one for a JVM, such as -Xmx2g. It
// has no meaning for this server.
func JVMWord(word string) bool {
	return slices.ContainsFunc(jvmWords, func(begin string) bool { return strings.HasPrefix(word, begin) })
}

// neighbours are files that Apache's scripts or Debian's service read from the directory
// of zoo.cfg, to set the variables of Environment.
var neighbours = []string{"java.env", "zookeeper-env.sh", "environment"}

// warnUnread warns about settings in places that are not read: JAVA_OPTS, and the
// neighbours of zoo.cfg. A setting that has the same value here needs no warning.
func (l *loader) warnUnread(e *Environment) {
	for _, d := range parseFlags(splitWords(e.Java), "JAVA_OPTS") {
		l.unread(d, "is not read from JAVA_OPTS: put -D%s=... into SERVER_JVMFLAGS", d.name)
	}
	if l.config.File == "" {
		return
	}
	for _, name := range neighbours {
		name = filepath.Join(filepath.Dir(l.config.File), name)
		text, err := readFile(name)
		if err != nil {
			continue // it need not exist, and may be unreadable
		}
		for _, d := range shellDefinitions(string(text), name) {
			l.unread(d, "is not read from this file, which Apache's scripts read: put -D%s=... into SERVER_JVMFLAGS", d.name)
		}
	}
}

// unread warns about a property in a place that is not read, if this server knows it and
// its value is not in force anyway.
func (l *loader) unread(d definition, format string, args ...any) {
	name, prefixed := strings.CutPrefix(d.name, "zookeeper.")
	s := l.known.find(bare, d.name)
	if prefixed && s == nil {
		s = l.known.find(property, name)
	}
	if s == nil || s.effect == accepted {
		return
	}
	if value, ok := l.config.Properties[d.name]; ok && value == d.value {
		return
	}
	l.warn(d.where, d.name, format, args...)
}

// shellDefinitions returns the -Dname=value of a shell script, except for its comments.
// Those whose value a shell would have to compute are included.
func shellDefinitions(text, file string) (all []definition) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if name, value, ok := strings.Cut(line, "="); ok && !strings.Contains(name, "-D") { // NAME="words"
			line = value
		}
		for _, w := range splitWords(line) {
			all = append(all, parseFlags(strings.Fields(w), file+":"+strconv.Itoa(number))...)
		}
	}
	return all
}

package config

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the tables of docs/ops/configuration.md anew")

// tablesBegin is the line behind which the tables stand.
const tablesBegin = "go test ./internal/config -update -->\n\n"

// tables renders the catalogue.
func tables() string {
	places := map[scope]string{inFile: "file", property: "both", bare: "-D"}
	var b strings.Builder
	for _, sec := range sections() {
		fmt.Fprintf(&b, "## %s\n\n", sec.title)
		if sec.intro != "" {
			b.WriteString(sec.intro + "\n\n")
		}
		b.WriteString("| key | in | default | here | |\n|---|---|---|---|---|\n")
		for _, s := range sec.settings {
			def := s.def
			if def != "" {
				def = "`" + def + "`"
			}
			note := strings.ReplaceAll(s.note, "|", `\|`)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", s.name, places[s.scope], def, s.effect, note)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestDocumentationIsTheCatalogue(t *testing.T) {
	const name = "../../docs/ops/configuration.md"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, got, ok := strings.Cut(string(text), tablesBegin)
	if !ok {
		t.Fatalf("%s has no line that ends with %q", name, tablesBegin)
	}
	want := tables()
	if *update {
		if err := os.WriteFile(name, []byte(head+tablesBegin+want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s is not up to date; run with -update (-catalogue +page):\n%s", name, diff)
	}
}

// The page quotes errors as Load returns them.
func TestDocumentationQuotesErrors(t *testing.T) {
	text, err := os.ReadFile("../../docs/ops/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile(`(?m)^    ((zoo\.cfg|SERVER_JVMFLAGS):(\d*):? ?(\S+=\S+): .+)$`).FindAllStringSubmatch(string(text), -1)
	if len(quoted) < 3 {
		t.Fatalf("the page quotes %d errors", len(quoted))
	}
	file, environ := make([]string, 20), ""
	file[0], file[1] = "dataDir=/data", "clientPort=2181"
	for _, q := range quoted {
		if line, _ := strconv.Atoi(q[3]); line > 0 {
			file[line-1] = q[4]
		} else {
			environ += " -D" + q[4]
		}
	}
	inDir(t, map[string]string{"zoo.cfg": lines(file...)})
	_, _, err = Load("zoo.cfg", nil, environ)
	for _, q := range quoted {
		if err == nil || !slices.Contains(strings.Split(err.Error(), "\n"), q[1]) {
			t.Errorf("the page says %q, Load %v", q[1], err)
		}
	}
}

// Every setting is found by its name, and by no other before it.
func TestCatalogueIsUnambiguous(t *testing.T) {
	known := catalogue{sections()}
	for _, sec := range known.sections {
		for _, s := range sec.settings {
			if s.setter.set == nil {
				t.Errorf("%s takes no value", s.name)
			}
			if s.effect == accepted || s.effect == honoured {
				if s.harmless != "" {
					t.Errorf("%s: harmless values belong to settings that are missing or refused", s.name)
				}
			} else if s.note == "" {
				t.Errorf("%s is not honoured and says no reason", s.name)
			}
			name := strings.Replace(s.name, "*", "1", 1)
			if isMemberKey(name) && s.scope == inFile {
				continue
			}
			found := known.find(s.scope, name)
			if found == nil || found.name != s.name {
				t.Errorf("%s is found as %+v", s.name, found)
			}
		}
	}
}

// The settings of missing features are silent in their defaults.
func TestDefaultsAreHarmless(t *testing.T) {
	for _, sec := range sections() {
		for _, s := range sec.settings {
			if (s.effect == missing || s.effect == refused) && s.def != "" && !s.isHarmless(s.def) {
				t.Errorf("%s=%s, the default, is not harmless", s.name, s.def)
			}
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b  string
		limit int
		want  int
	}{
		{"", "", 5, 0}, {"abc", "abc", 5, 0}, {"abc", "abd", 5, 1}, {"abc", "acb", 5, 1}, {"abc", "ab", 5, 1},
		{"ab", "abc", 5, 1}, {"", "abc", 5, 3}, {"kitten", "sitting", 5, 3}, {"abc", "abcdefgh", 5, 5}, {"abcdefgh", "abc", 5, 5},
	}
	for _, tt := range tests {
		if got := distance(tt.a, tt.b, tt.limit); got != tt.want {
			t.Errorf("distance(%q, %q, %d) = %d, want %d", tt.a, tt.b, tt.limit, got, tt.want)
		}
	}
}

func TestDecimal(t *testing.T) {
	for text, want := range map[string]string{"5": "5", "0": "0", "-1": "-1", "+7": "+7", "0x10": "16", "-0XfF": "-255", "#a": "10", "abc": "abc", "": ""} {
		if got, err := decimal(text); err != nil || got != want {
			t.Errorf("decimal(%q) = %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"010", "-01", "0x", "0x-1", "#", "--1", "0xg", "0x10000000000000000"} {
		if got, err := decimal(text); err == nil {
			t.Errorf("decimal(%q) = %q, want an error", text, got)
		}
	}
}

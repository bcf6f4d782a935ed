package migrate

import (
	"bytes"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/pinfold-zk/pinfold/client"
	"github.com/pinfold-zk/pinfold/internal/config"
	"github.com/pinfold-zk/pinfold/internal/zab/quorum"
)

// A Member is a member of the ensemble.
type Member struct {
	ID       int64
	Observer bool
	Host     string // of its server line
	Client   string // host:port for clients
}

// A Config is the members of an ensemble, by ascending id.
type Config struct {
	Members []Member
	voters  *quorum.System
}

// ReadConfig reads the members from a zoo.cfg, and from the dynamic file that it names.
// clients has addresses for clients, by id, where they are not those of zoo.cfg.
func ReadConfig(file string, clients map[int64]string) (*Config, error) {
	settings, err := properties(file)
	if err != nil {
		return nil, err
	}
	if dynamic := settings["dynamicConfigFile"]; dynamic != "" {
		members, err := properties(dynamic)
		if err != nil {
			return nil, fmt.Errorf("%s: dynamicConfigFile: %w", file, err)
		}
		maps.Copy(settings, members)
	}
	var text bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if kind, _, _ := strings.Cut(key, "."); kind == "server" || kind == "group" || kind == "weight" {
			fmt.Fprintf(&text, "%s=%s\n", key, settings[key])
		}
	}
	members, err := config.ParseMembers(text.Bytes())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return newConfig(file, members, settings["clientPort"], clients)
}

func properties(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	settings, err := config.Properties(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return settings, nil
}

// newConfig gives each member its address for clients. port is that of members whose lines
// have none.
func newConfig(file string, members *config.Members, port string, clients map[int64]string) (*Config, error) {
	c := &Config{voters: quorum.Majority(members.Voters()...)}
	if members.Hierarchical() {
		var err error
		if c.voters, err = quorum.Weighted(members.WeightsAndGroups()); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for i := range members.Servers {
		s := &members.Servers[i]
		m := Member{ID: s.ID, Observer: s.Observer, Host: s.Addresses[0].Host, Client: clients[s.ID]}
		if m.Client == "" {
			line, err := client.ParseMember(fmt.Sprintf("%d=%s", s.ID, s.Line()))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			m.Client = line.ClientAddr()
		}
		if m.Client == "" && port != "" {
			m.Client = net.JoinHostPort(m.Host, port)
		}
		if m.Client == "" {
			return nil, fmt.Errorf("%s has no client port for server %d: give --client %d=HOST:PORT", file, s.ID, s.ID)
		}
		c.Members = append(c.Members, m)
	}
	for id := range clients {
		if c.find(id) == nil {
			return nil, fmt.Errorf("--client %d: %s has no server.%d", id, file, id)
		}
	}
	if len(c.Members) < 2 {
		return nil, fmt.Errorf("%s does not describe an ensemble: it has %d server lines", file, len(c.Members))
	}
	return c, nil
}

// find returns the member with that id, nil if there is none.
func (c *Config) find(id int64) *Member {
	for i := range c.Members {
		if c.Members[i].ID == id {
			return &c.Members[i]
		}
	}
	return nil
}

// quorumWithout reports whether the other members are a quorum.
func (c *Config) quorumWithout(id int64) bool {
	return c.voters.Quorum(func(other int64) bool {
		m := c.find(other)
		return other != id && m != nil && !m.Observer
	})
}

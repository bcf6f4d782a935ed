package pinfold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// NewEnsemble creates the n servers of an ensemble on 127.0.0.1, numbered from 1, each
// with the given Config. Its fields ID and File must be zero. Addr is ignored. Server N
// keeps its data in the directory N of DataDir, or in memory. The ports are free ones.
// The ports for the other servers are open from now on, so every server must be
// stopped, whether it was started or not.
//
// Unless Settings say otherwise, tickTime is 2000, initLimit 10 and syncLimit 5.
func NewEnsemble(n int, c Config) (servers []*Server, err error) {
	if n < 1 || c.ID != 0 || c.File != "" {
		return nil, errors.New("pinfold: an ensemble needs at least one server, and a Config without ID and File")
	}
	settings := map[string]string{"tickTime": "2000", "initLimit": "10", "syncLimit": "5", "standaloneEnabled": "false"}
	maps.Copy(settings, c.Settings)
	held := make([]map[string]net.Listener, n)
	defer func() {
		if err != nil {
			for _, ports := range held {
				closeAll(ports)
			}
		}
	}()
	for i := range n {
		var line string
		if line, held[i], err = openPorts(); err != nil {
			return nil, err
		}
		settings["server."+strconv.Itoa(i+1)] = line
	}
	for i := range n {
		member := c
		member.ID, member.Settings, member.Addr = int64(i+1), settings, ""
		if c.DataDir != "" {
			member.DataDir = filepath.Join(c.DataDir, strconv.Itoa(i+1))
		}
		s, err := New(member)
		if err != nil {
			return nil, err
		}
		s.held = held[i]
		servers = append(servers, s)
	}
	return servers, nil
}

// openPorts opens the quorum port and the election port of a server, and returns its
// server line.
func openPorts() (line string, held map[string]net.Listener, err error) {
	held = map[string]net.Listener{}
	line = "127.0.0.1"
	for range 2 {
		l, err := (&net.ListenConfig{KeepAlive: -1}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			closeAll(held)
			return "", nil, fmt.Errorf("pinfold: %w", err)
		}
		held[l.Addr().String()] = l
		line += fmt.Sprintf(":%d", l.Addr().(*net.TCPAddr).Port)
	}
	return line, held, nil
}

// closeAll closes unused ports. Errors are ignored.
func closeAll(held map[string]net.Listener) {
	for _, l := range held {
		l.Close()
	}
}

// ConnectString returns the addresses of started servers, in the form that clients
// expect.
func ConnectString(servers ...*Server) string {
	var all []string
	for _, s := range servers {
		all = append(all, s.Addr())
	}
	return strings.Join(all, ",")
}

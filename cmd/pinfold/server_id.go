package main

import (
	"fmt"
	"strconv"
	"strings"
)

// serverID reads the value of --id: a server's number, or "hostname", which means the number
// at the end of the host's name, plus one. In a StatefulSet of Kubernetes, the pods' names end with
// numbers from 0 on, and a server's number begins with 1.
func serverID(value string, hostname func() (string, error)) (int64, error) {
	if value != "hostname" {
		id, err := strconv.ParseInt(value, 10, 64)
		if err != nil || id < 0 {
			return 0, fmt.Errorf("server: --id %s is neither a server's number nor hostname", value)
		}
		return id, nil
	}
	host, err := hostname()
	if err != nil {
		return 0, fmt.Errorf("server: --id hostname: %w", err)
	}
	name, _, _ := strings.Cut(host, ".")
	digits := name[strings.LastIndexByte(name, '-')+1:]
	ordinal, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || digits == name {
		return 0, fmt.Errorf("server: --id hostname: the name %q does not end with a hyphen and a number", host)
	}
	return int64(ordinal) + 1, nil
}

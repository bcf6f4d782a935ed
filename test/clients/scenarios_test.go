package clients

// scenarios are all that is run on each kind of servers.
func scenarios() []scenario {
	return []scenario{
		{name: "operations", run: operations},
		{name: "operations async", run: operationsAsync},
		{name: "transactions", run: transactions},
		{name: "acl", run: acls},
		{name: "chroot", run: chroots},
		{name: "containers and ttl", run: containersAndTTL},
		{name: "watches", run: watches},
		{name: "watches restart", run: watchesRestart, restart: true},
		{name: "session moves", run: sessionMoves, restart: true},
		{name: "session expires", run: sessionExpires},
		{name: "fifo", run: fifo, restart: true},
		{name: "cache", run: caches, restart: true},
	}
}

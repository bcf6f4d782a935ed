package clients

// scenarios are all that is run on each kind of servers.
func scenarios() []scenario { return append(clientScenarios(), recipeScenarios()...) }

func clientScenarios() []scenario {
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
		{name: "command line", run: commandLine},
	}
}

func recipeScenarios() []scenario {
	return []scenario{
		{name: "simple lock", run: exclusive(simpleLocking), restart: true},
		{name: "lock", run: exclusive(lineLocking), restart: true},
		{name: "lock with kazoo's names", run: exclusive(kazooLocking), restart: true},
		{name: "write lock", run: exclusive(writeLocking), restart: true},
		{name: "revocable lock", run: exclusive(revocableLocking), restart: true},
		{name: "readers", run: readersTogether, restart: true},
		{name: "revoking", run: revoking, restart: true},
		{name: "election", run: elections, restart: true},
		{name: "semaphore", run: semaphores, restart: true},
		{name: "barrier", run: barriers, restart: true},
		{name: "double barrier", run: doubleBarriers, restart: true},
		{name: "group", run: groups, restart: true},
		{name: "rendezvous", run: rendezvous, restart: true},
		{name: "two-phase commit", run: commits, restart: true},
		{name: "queue", run: queues(plainQueue), restart: true},
		{name: "bounded queue", run: queues(boundedQueue), restart: true},
		{name: "priority queue", run: queues(priorityQueue), restart: true},
		{name: "counter", run: counters, restart: true},
		{name: "configuration", run: configurations, restart: true},
		{name: "ready configuration", run: readyConfigurations, restart: true},
		{name: "names", run: names, restart: true},
	}
}

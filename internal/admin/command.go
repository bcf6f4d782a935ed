package admin

import "github.com/pinfold-zk/pinfold/internal/replica"

// A command is one of the commands of the administration server.
type command struct {
	names      []string // the primary name, then the aliases
	serving    bool     // it needs a server that serves clients
	authorized bool     // it needs a proof of identity
	post       bool     // its method is POST
	run        func(*Server, *reply)
	help       string // one line for the description
}

// commands returns all commands: those of Apache 3.9, shed_connections of 3.10, hand_over and
// resolve.
func commands() []command {
	one := func(help string, run func(*Server, *reply), names ...string) command {
		return command{names: names, help: help, run: run, serving: true}
	}
	always := func(help string, run func(*Server, *reply), names ...string) command {
		return command{names: names, help: help, run: run}
	}
	return []command{
		one("The configuration of the server", (*Server).configuration, "configuration", "conf", "config"),
		one("Resets the counts of all connections", (*Server).resetConnections, "connection_stat_reset", "crst"),
		one("The connections of clients, and their sessions", (*Server).connections, "connections", "cons"),
		one("The sizes of the directories", (*Server).dirs, "dirs"),
		one("Sessions by the time of their expiry, and their ephemerals", (*Server).dump, "dump"),
		always("The environment of the process", (*Server).environment, "environment", "env", "envi"),
		always("The trace mask, which has no effect", (*Server).traceMask, "get_trace_mask", "gtmk"),
		{names: []string{"hand_over"}, serving: true, authorized: true, post: true, run: (*Server).handOver,
			help: "Has another member lead, if this server does"},
		one("Digests of the tree at some zxids", (*Server).hash, "hash"),
		one("The configuration file, on a standalone server", (*Server).initialConfiguration, "initial_configuration", "icfg"),
		one("Whether the server is read-only", (*Server).isReadOnly, "is_read_only", "isro"),
		one("The newest snapshot", (*Server).lastSnapshot, "last_snapshot", "lsnp"),
		one("The leader of the ensemble", (*Server).leader, "leader", "lead"),
		always("All metrics", (*Server).monitor, "monitor", "mntr"),
		one("Resets the counts of the links to observers", (*Server).resetObservers, "observer_connection_stat_reset", "orst"),
		one("The observers that follow this leader", (*Server).observers, "observers", "obsr"),
		{names: []string{"resolve"}, authorized: true, post: true, run: (*Server).resolve,
			help: "The addresses of a host, as this server finds them"},
		{names: []string{"restore", "rest"}, serving: true, authorized: true, post: true, run: (*Server).restore,
			help: "Replaces the state by the snapshot in the body"},
		always("Whether the process runs; see /readyz", (*Server).nothing, "ruok"),
		one("The state of the server", (*Server).serverStats, "server_stats", "srvr"),
		always("Sets the trace mask, which has no effect", (*Server).setTraceMask, "set_trace_mask", "stmk"),
		{names: []string{"shed_connections", "shed"}, serving: true, authorized: true, post: true, run: (*Server).shed,
			help: "Closes a share of the connections, whose clients connect again"},
		{names: []string{"snapshot", "snap"}, serving: true, authorized: true, run: (*Server).snapshot,
			help: "Writes a snapshot and sends it"},
		one("Resets the statistics of the server", (*Server).resetStats, "stat_reset", "srst"),
		one("The state of the server, and its connections", (*Server).stats, "stats", "stat"),
		always("The Java properties of the configuration", (*Server).systemProperties, "system_properties", "sysp"),
		one("The members of the ensemble that vote", (*Server).votingView, "voting_view"),
		one("The numbers of data watches", (*Server).watchSummary, "watch_summary", "wchs"),
		one("Data watches by session", (*Server).watches, "watches", "wchc"),
		one("Data watches by path", (*Server).watchesByPath, "watches_by_path", "wchp"),
		always("The state of the server in its ensemble", (*Server).zabState, "zabstate"),
	}
}

// byName returns the commands by all of their names.
func byName() map[string]*command {
	all := map[string]*command{}
	list := commands()
	for i := range list {
		for _, name := range list[i].names {
			all[name] = &list[i]
		}
	}
	return all
}

// serving reports whether a server in that mode serves clients, if only readers.
func serving(m replica.Mode) bool { return m != replica.Idle }

// nothing is a command without data.
func (s *Server) nothing(*reply) {}

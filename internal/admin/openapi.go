package admin

import (
	"net/http"

	"github.com/pinfold-zk/pinfold/internal/server"
)

// openapi describes the pages and commands in the form of OpenAPI 3.0.
func (s *Server) openapi(w http.ResponseWriter, r *http.Request) {
	q := newReply(w, r)
	q.text("openapi", "3.0.3")
	q.object("info")
	q.text("title", "Administration of a ZooKeeper server")
	q.text("version", server.Version)
	q.end()
	q.object("paths")
	q.page("/healthz", "Whether the process works", "503")
	q.page("/readyz", "Whether clients can connect and write, and why not", "503")
	q.page("/metrics", "The metrics, for Prometheus", "503")
	for _, c := range commands() {
		q.object(s.cfg.Admin.CommandURL + "/" + c.names[0])
		if c.post {
			q.object("post")
		} else {
			q.object("get")
		}
		q.text("operationId", c.names[0])
		q.text("summary", c.help)
		q.parameters(&c)
		q.object("responses")
		q.response("200", "The answer; its key error is null if the command has succeeded")
		if c.authorized {
			q.response("401", "The header Authorization is missing, or proves no identity")
			q.response("403", "The identity lacks a permission on the root znode")
		}
		q.end()
		if c.authorized {
			q.array("security")
			q.object("")
			q.array("authorization")
			q.end()
			q.end()
			q.end()
		}
		q.end()
		q.end()
	}
	q.end()
	q.object("components")
	q.object("securitySchemes")
	q.object("authorization")
	q.text("type", "apiKey")
	q.text("in", "header")
	q.text("name", "Authorization")
	q.text("description", "digest user:password")
	for range 3 {
		q.end()
	}
	q.end()
	q.flush()
}

// page describes a page without parameters.
func (q *reply) page(path, summary, problem string) {
	q.object(path)
	q.object("get")
	q.text("operationId", path[1:])
	q.text("summary", summary)
	q.object("responses")
	q.response("200", "Yes")
	q.response(problem, "No")
	q.end()
	q.end()
	q.end()
}

// parameters describes the parameters of a command, and its body.
func (q *reply) parameters(c *command) {
	switch c.names[0] {
	case "snapshot":
		q.parameter("streaming", "boolean", "false: the answer does not have the snapshot")
	case "resolve":
		q.parameter("host", "string", "a host name")
	case "set_trace_mask":
		q.parameter("traceMask", "integer", "the new mask")
	case "shed_connections":
		q.object("requestBody")
		q.object("content")
		q.object("application/json")
		q.object("schema")
		q.text("type", "object")
		q.object("properties")
		q.object("percentage")
		q.text("type", "integer")
		for range 6 {
			q.end()
		}
	}
}

func (q *reply) parameter(name, kind, description string) {
	q.array("parameters")
	q.object("")
	q.text("name", name)
	q.text("in", "query")
	q.text("description", description)
	q.object("schema")
	q.text("type", kind)
	q.end()
	q.end()
	q.end()
}

func (q *reply) response(status, description string) {
	q.object(status)
	q.text("description", description)
	q.end()
}

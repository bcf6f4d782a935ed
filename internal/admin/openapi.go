package admin

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/pinfold-zk/pinfold/internal/server"
)

// An object is a JSON object.
type object = map[string]any

// openapi answers with a description of the pages and commands in the form of OpenAPI 3.0.
func (s *Server) openapi(w http.ResponseWriter, _ *http.Request) {
	b, err := json.MarshalIndent(s.description(), "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the client has gone
}

func (s *Server) description() object {
	paths := object{
		"/healthz": probe("healthz", "Whether the process works", object{"alive": kind("boolean")}, "alive"),
		"/readyz": probe("readyz", "Whether clients can connect and write, and why not", object{
			"ready": kind("boolean"), "healing": kind("boolean"), "mode": kind("string"), "last_zxid": kind("string"),
			"reasons": list("string"),
		}, "ready", "mode", "last_zxid", "reasons"),
		"/metrics":                   page("metrics", "The metrics, for Prometheus", object{"200": object{"description": "In the format that the header Accept asks for"}}),
		"/openapi.json":              page("openapi", "This description", object{"200": answer("OpenAPI 3.0", kind("object")), "405": noBody("Only GET is answered")}),
		s.cfg.Admin.CommandURL + "/": page("index", "The commands, as links", object{"200": object{"description": "HTML, without a Content-Type"}}),
	}
	if s.cfg.Admin.Pprof {
		paths[profiles] = page("pprof", "Profiles of the process, as links", object{
			"200": object{"description": "HTML", "content": object{"text/html": object{"schema": kind("string")}}}, "405": noBody("Only GET is answered")})
	}
	for _, c := range commands() {
		method := "get"
		if c.post {
			method = "post"
		}
		paths[s.cfg.Admin.CommandURL+"/"+c.names[0]] = object{method: c.operation()}
	}
	return object{
		"openapi": "3.0.3",
		"info":    object{"title": "Administration of a ZooKeeper server", "version": server.Version},
		"paths":   paths,
		"components": object{
			"schemas": object{"Answer": object{
				"type": "object", "required": []string{"command", "error"}, "description": "What the command shows, and:",
				"properties": object{"command": kind("string"), "error": object{
					"type": "string", "nullable": true, "description": "null if the command has succeeded; some errors have no text either, only a status"}},
			}},
			"securitySchemes": object{"authorization": object{
				"type": "apiKey", "in": "header", "name": "Authorization", "description": "digest user:password, or ip",
			}},
		},
	}
}

// operation describes a command.
func (c *command) operation() object {
	d := details[c.names[0]]
	shown := object{"$ref": "#/components/schemas/Answer"}
	if d.shows != nil {
		shown = object{"allOf": []object{shown, {"type": "object", "properties": d.shows}}}
	}
	responses := object{
		"200": answer("The answer. Its key error has a text if the command is not possible in the server's present role", shown),
		"405": answer("The command needs the other one of GET and POST", shown),
	}
	if d.stream {
		responses["200"].(object)["content"].(object)["application/octet-stream"] = object{"schema": object{"type": "string", "format": "binary"}}
	}
	if c.authorized {
		responses["401"] = answer("The header Authorization is missing, or proves no identity", shown)
		responses["403"] = answer("The identity lacks a permission on the root znode", shown)
		responses["500"] = answer("The ACL of the root znode cannot be read", shown)
	}
	for status, why := range d.statuses {
		responses[strconv.Itoa(status)] = answer(why, shown)
	}
	op := object{"operationId": c.names[0], "summary": c.help, "responses": responses}
	if len(c.names) > 1 {
		op["x-aliases"] = c.names[1:]
	}
	if c.authorized {
		op["security"] = []object{{"authorization": []string{}}}
	}
	if d.query != nil {
		op["parameters"] = []object{d.query}
	}
	if d.body != nil {
		op["requestBody"] = object{"required": true, "content": d.body}
	}
	return op
}

// A detail is what the description says of one command beyond what commands have in common.
type detail struct {
	query    object         // its parameter
	body     object         // of the request, by media type
	shows    object         // properties of the answer
	stream   bool           // the answer may be the bytes of a snapshot
	statuses map[int]string // with what they mean
}

var details = map[string]detail{
	"snapshot": {
		query:  parameter("streaming", "boolean", false, "false: the answer does not have the snapshot"),
		stream: true,
		statuses: map[int]string{
			http.StatusTooManyRequests:     "Within admin.rateLimiterIntervalInMS of the last one",
			http.StatusInternalServerError: "The snapshot failed, see the log; or serializeLastProcessedZxid.enabled=false, or the ACL of the root znode cannot be read",
			http.StatusServiceUnavailable:  "admin.snapshot.enabled=false",
		},
	},
	"restore": {
		body:  object{"application/octet-stream": object{"schema": object{"type": "string", "format": "binary"}}},
		shows: object{"last_zxid": kind("integer")},
		statuses: map[int]string{
			http.StatusConflict:            "The server cannot be restored now: the error says why",
			http.StatusTooManyRequests:     "Within admin.rateLimiterIntervalInMS of the last one",
			http.StatusInternalServerError: "The body is no whole snapshot, see the log; or serializeLastProcessedZxid.enabled=false, or the ACL of the root znode cannot be read",
			http.StatusServiceUnavailable:  "admin.restore.enabled=false",
		},
	},
	"hand_over": {statuses: map[int]string{
		http.StatusConflict:           "The server does not lead, or leads on: the error says why",
		http.StatusServiceUnavailable: "The server has failed",
	}},
	"resolve": {
		query: parameter("host", "string", true, "a host name"),
		shows: object{"addresses": list("string")},
		statuses: map[int]string{
			http.StatusBadRequest:          "The parameter is missing",
			http.StatusUnprocessableEntity: "The name is not known here",
		},
	},
	"shed_connections": {
		body: object{"application/json": object{"schema": object{
			"type": "object", "required": []string{"percentage"},
			"properties": object{"percentage": object{"type": "integer", "minimum": 0, "maximum": 100}},
		}}},
		shows:    object{"connections_shed": kind("integer"), "percentage_requested": kind("integer")},
		statuses: map[int]string{http.StatusBadRequest: "The body is not as it must be: the error says why"},
	},
	"set_trace_mask": {query: parameter("traceMask", "integer", false, "the new mask; without it the answer is an error with the status 200, as Apache's")},
}

// probe describes a page that answers 200 for yes and 503 for no, with an object.
func probe(id, summary string, properties object, required ...string) object {
	schema := object{"type": "object", "properties": properties, "required": required}
	return page(id, summary, object{"200": answer("Yes", schema), "503": answer("No", schema), "405": noBody("Only GET is answered")})
}

// page describes a page without parameters.
func page(id, summary string, responses object) object {
	return object{"get": object{"operationId": id, "summary": summary, "responses": responses}}
}

func answer(description string, schema object) object {
	return object{"description": description, "content": object{"application/json": object{"schema": schema}}}
}

func noBody(description string) object { return object{"description": description} }

func kind(name string) object { return object{"type": name} }

func list(of string) object { return object{"type": "array", "items": kind(of)} }

func parameter(name, of string, required bool, description string) object {
	return object{"name": name, "in": "query", "required": required, "description": description, "schema": kind(of)}
}

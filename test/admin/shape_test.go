package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// A value is a JSON value whose object keeps the order of its keys.
type value struct {
	kind string // object, array, text, whole, decimal, bool or null
	keys []string
	of   []value // of an object, by keys; of an array
	text string  // of a text
}

// parse reads one JSON value.
func parse(b []byte) (value, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	v, err := parseValue(d)
	if err == nil {
		if _, err = d.Token(); err != io.EOF {
			return v, fmt.Errorf("more than one value: %v", err)
		}
		err = nil
	}
	return v, err
}

func parseValue(d *json.Decoder) (v value, err error) {
	token, err := d.Token()
	if err != nil {
		return v, err
	}
	switch token := token.(type) {
	case json.Delim:
		v.kind = map[json.Delim]string{'{': "object", '[': "array"}[token]
		for d.More() {
			if v.kind == "object" {
				key, err := d.Token()
				if err != nil {
					return v, err
				}
				v.keys = append(v.keys, key.(string))
			}
			one, err := parseValue(d)
			if err != nil {
				return v, err
			}
			v.of = append(v.of, one)
		}
		_, err = d.Token()
	case string:
		v.kind, v.text = "text", token
	case json.Number:
		v.kind = "whole"
		if strings.ContainsAny(token.String(), ".eE") {
			v.kind = "decimal"
		}
	case bool:
		v.kind = "bool"
	case nil:
		v.kind = "null"
	}
	return v, err
}

// get returns the value of a key of an object.
func (v value) get(key string) (value, bool) {
	if i := slices.Index(v.keys, key); i >= 0 {
		return v.of[i], true
	}
	return value{}, false
}

// rules say how an object is compared, by its path in an answer. Others must have the
// same keys in the same order.
var rules = map[string]string{
	"server_stats/server_stats":           "any order", // of a bean: it differs from run to run
	"stats/server_stats":                  "any order",
	"monitor":                             "more",      // in the order of a hash; here are metrics of later releases too
	"watches_by_path/path_to_session_ids": "any order", // of a hash, too
	"environment":                         "more",      // names of 3.8 and of later releases
	"system_properties":                   "other",
	"dump/expiry_time_to_session_ids":     "by value",
	"dump/session_id_to_ephemeral_paths":  "by value",
	"watches/session_id_to_watched_paths": "by value",
}

// differences returns how the shape of ours differs from that of Apache's answer.
func differences(path string, apache, ours value) (list []string) {
	found := func(format string, args ...any) {
		list = append(list, path+": "+fmt.Sprintf(format, args...))
	}
	if apache.kind != ours.kind {
		found("Apache has %s, we have %s", apache.kind, ours.kind)
		return list
	}
	switch apache.kind {
	case "array":
		switch {
		case len(apache.of) == 0 && len(ours.of) == 0:
		case len(apache.of) == 0 || len(ours.of) == 0:
			found("Apache has %d values, we have %d", len(apache.of), len(ours.of))
		default:
			list = append(list, differences(path, apache.of[0], ours.of[0])...)
		}
	case "object":
		list = append(list, objectDifferences(path, apache, ours)...)
	}
	return list
}

func objectDifferences(path string, apache, ours value) (list []string) {
	each := func(keys []string) {
		for _, key := range keys {
			a, _ := apache.get(key)
			o, ok := ours.get(key)
			if !ok && strings.Contains(key, "_learner_handler_qp_") {
				continue // it has the number of a learner
			}
			if !ok {
				list = append(list, path+": we do not have "+key)
				continue
			}
			list = append(list, differences(path+"/"+key, a, o)...)
		}
	}
	same := slices.Equal[[]string]
	ordered := func(keys []string) []string { return slices.Sorted(slices.Values(keys)) }
	switch rules[path] {
	case "more": // and the last two keys are the same
		each(apache.keys)
		if last := max(len(ours.keys)-2, 0); !same(apache.keys[len(apache.keys)-2:], ours.keys[last:]) {
			list = append(list, fmt.Sprintf("%s ends with %q", path, ours.keys[last:]))
		}
	case "other":
		each([]string{"command", "error"})
	case "by value":
		a, o := filled(apache), filled(ours)
		if len(a) != len(o) {
			return []string{fmt.Sprintf("%s: Apache has %d filled entries, we have %d", path, len(a), len(o))}
		}
		for i := range a {
			list = append(list, differences(path+"/*", a[i], o[i])...)
		}
	default:
		a, o := apache.keys, ours.keys
		if rules[path] == "any order" {
			a, o = ordered(a), ordered(o)
		}
		if !same(a, o) {
			return []string{fmt.Sprintf("%s: Apache has the keys %q, we have %q", path, a, o)}
		}
		each(apache.keys)
	}
	return list
}

// filled returns the values of an object that are no empty arrays: Apache keeps the times
// at which sessions were to expire.
func filled(v value) (list []value) {
	for _, one := range v.of {
		if one.kind != "array" || len(one.of) > 0 {
			list = append(list, one)
		}
	}
	return list
}

package client

import (
	"github.com/pinfold-zk/pinfold/internal/jute"
	"github.com/pinfold-zk/pinfold/internal/wire"
	"github.com/pinfold-zk/pinfold/zk"
)

// Create makes a znode that everybody may do everything with.
func Create(path string, data []byte, mode zk.CreateMode) Request {
	r := wire.CreateRequest{Path: path, Data: data, ACL: zk.OpenACLUnsafe(), Flags: mode, TTL: -1}
	return Request{wire.OpCreate, r.Append(nil, wire.OpCreate)}
}

// Set sets a znode's data; version is what it must have, -1 for any.
func Set(path string, data []byte, version int32) Request {
	r := wire.SetDataRequest{Path: path, Data: data, Version: version}
	return Request{wire.OpSetData, r.Append(nil)}
}

// Delete deletes a znode; version is what it must have, -1 for any.
func Delete(path string, version int32) Request {
	r := wire.PathVersion{Path: path, Version: version}
	return Request{wire.OpDelete, r.Append(nil)}
}

// Get reads a znode's data.
func Get(path string) Request {
	r := wire.PathWatch{Path: path}
	return Request{wire.OpGetData, r.Append(nil)}
}

// GetACL reads a znode's ACL.
func GetACL(path string) Request {
	return Request{wire.OpGetACL, jute.AppendString(nil, path)}
}

// Children reads a znode's list of children and its Stat.
func Children(path string) Request {
	r := wire.PathWatch{Path: path}
	return Request{wire.OpGetChildren2, r.Append(nil)}
}

// Sync has the server catch up with the leader.
func Sync(path string) Request {
	return Request{wire.OpSync, jute.AppendString(nil, path)}
}

// Multi does all operations or none.
func Multi(ops ...wire.MultiOp) Request {
	var b []byte
	for i := range ops {
		b = ops[i].Append(b)
	}
	return Request{wire.OpMulti, wire.AppendMultiEnd(b)}
}

// MultiGet reads the data of several znodes in one state.
func MultiGet(paths ...string) Request {
	var b []byte
	for _, p := range paths {
		m := wire.MultiOp{Type: wire.OpGetData}
		m.Path = p
		b = m.Append(b)
	}
	return Request{wire.OpMultiRead, wire.AppendMultiEnd(b)}
}

// CreateOp, SetOp, DeleteOp and CheckOp are operations of a Multi.
func CreateOp(path string, data []byte, mode zk.CreateMode) wire.MultiOp {
	return wire.MultiOp{Type: wire.OpCreate, CreateRequest: wire.CreateRequest{
		Path: path, Data: data, ACL: zk.OpenACLUnsafe(), Flags: mode,
	}}
}

// SetOp sets a znode's data.
func SetOp(path string, data []byte, version int32) wire.MultiOp {
	return wire.MultiOp{Type: wire.OpSetData, CreateRequest: wire.CreateRequest{Path: path, Data: data}, Version: version}
}

// DeleteOp deletes a znode.
func DeleteOp(path string, version int32) wire.MultiOp {
	return wire.MultiOp{Type: wire.OpDelete, CreateRequest: wire.CreateRequest{Path: path}, Version: version}
}

// CheckOp fails the multi unless the znode exists and has the version.
func CheckOp(path string, version int32) wire.MultiOp {
	return wire.MultiOp{Type: wire.OpCheck, CreateRequest: wire.CreateRequest{Path: path}, Version: version}
}

// Path is the body of a reply to create.
func (r Reply) Path() (string, error) {
	d := jute.NewDecoder(r.Body)
	p := d.Path()
	return p, d.Err()
}

// Data is the body of a reply to getData.
func (r Reply) Data() ([]byte, zk.Stat, error) {
	d := jute.NewDecoder(r.Body)
	data := d.Buffer()
	st := wire.DecodeStat(&d)
	return data, st, d.Err()
}

// Stat is the body of a reply to setData.
func (r Reply) Stat() (zk.Stat, error) {
	d := jute.NewDecoder(r.Body)
	st := wire.DecodeStat(&d)
	return st, d.Err()
}

// Names is the body of a reply to getChildren2.
func (r Reply) Names() ([]string, zk.Stat, error) {
	d := jute.NewDecoder(r.Body)
	names := d.Strings()
	st := wire.DecodeStat(&d)
	return names, st, d.Err()
}

// A Value is one result of a MultiGet; with a Code there is no more than that.
type Value struct {
	Code zk.Code
	Data []byte
	Stat zk.Stat
}

// Values is the body of a reply to a MultiGet.
func (r Reply) Values() ([]Value, error) {
	d := jute.NewDecoder(r.Body)
	var values []Value
	for d.Err() == nil {
		var h wire.MultiHeader
		h.Decode(&d)
		if h.Done {
			break
		}
		if h.Type == wire.OpError {
			values = append(values, Value{Code: zk.Code(d.Int())})
			continue
		}
		values = append(values, Value{Data: d.Buffer(), Stat: wire.DecodeStat(&d)})
	}
	return values, d.Err()
}

// MultiCode is how a multi ended, from a reply whose own code is OK: OK if all
// was done, otherwise the error of the operation that stopped it.
func (r Reply) MultiCode() (zk.Code, error) {
	d := jute.NewDecoder(r.Body)
	for d.Err() == nil {
		var h wire.MultiHeader
		h.Decode(&d)
		if h.Done || h.Type != wire.OpError {
			break
		}
		// Operations before the one that failed have OK, those behind it
		// ErrRuntimeInconsistency.
		if c := zk.Code(d.Int()); c != zk.OK {
			return c, d.Err()
		}
	}
	return zk.OK, d.Err()
}

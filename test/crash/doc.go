// Package crash kills a server under load, again and again, and looks whether
// everything that it has acknowledged is there when it starts again. The test
// has the code; make crash runs it a thousand times.
package crash

// Package chaos is a test: clients that use the recipes on an ensemble of real
// servers, while members are killed, paused and cut off, and clients die. It
// demands what the recipes promise.
//
//	go test ./test/chaos -v -count 1 -pinfold build/pinfold
//	go test ./test/chaos -v -count 1 -pinfold build/pinfold -for 10m -seed 7
//	go test ./test/chaos -v -count 1 -kinds apache,apache,apache
package chaos

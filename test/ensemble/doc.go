// Package ensemble runs ensembles of real servers, Apache ZooKeeper and Pinfold
// in any mixture, breaks them under load, and checks what clients saw and what
// is left. The tests have the code; README.md says how to run them. Without
// their flags they skip.
package ensemble

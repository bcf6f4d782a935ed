// Package recipemodel is a test: clients that use recipes at random on a server in
// the same process, in virtual time, while connections break, answers are lost or
// late, the server restarts, and sessions end. It demands what docs/recipes.md
// promises of every recipe.
//
// A seed determines what is chosen: recipes, clients, their operations, the
// latencies of their networks, the faults and their moments. It does not determine
// everything: of what happens at the same moment of virtual time, the scheduler
// chooses the order, and GUIDs are random. So a seed that fails may have to be run
// several times (-again) before it fails again.
//
//	go test ./test/recipemodel -run TestSoak -seeds 1000 -from 1
//	go test ./test/recipemodel -run TestSeed -seed 7 -again 20
//	go test ./test/recipemodel -run TestSoak -seeds 200 -role queue
package recipemodel

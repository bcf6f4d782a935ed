// Figure draws what `pinfold bench failover --json` has recorded:
//
//	go run ./internal/bench/figure failover.json failover.svg
//
// It is a program of its own because the fonts that plotting needs would double
// the size of the server's binary.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/pinfold-zk/pinfold/internal/bench"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: figure RECORD.json PLOT.svg")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "figure:", err)
		os.Exit(1)
	}
}

// run reads the record and writes the plot.
func run(record, plot string) error {
	b, err := os.ReadFile(record)
	if err != nil {
		return err
	}
	var found bench.Failovers
	if err := json.Unmarshal(b, &found); err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	svg, err := render(&found)
	if err != nil {
		return fmt.Errorf("%s: %w", record, err)
	}
	return os.WriteFile(plot, svg, 0o644)
}

package sim

import (
	"fmt"
	"math"
	"time"

	"github.com/anishathalye/porcupine"
)

// register is a znode that clients write: unset before the first write that is
// known of, when a read may show anything once.
type register struct {
	set   bool
	value string
}

// registerModel is what porcupine is to find.
var registerModel = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		r, a := state.(register), input.(Access)
		switch {
		case a.Kind == Write:
			return true, register{true, a.Value}
		case !r.set:
			return true, register{true, a.Value}
		}
		return r.value == a.Value, r
	},
	DescribeOperation: func(input, _ any) string { return fmt.Sprintf("%+v", input) },
}

// patience is how long porcupine may take; what it does not decide in that time
// the other checks have.
const patience = 200 * time.Millisecond

// checkLinearizable has porcupine judge every register.
func checkLinearizable(registers [][]Access) *Violation {
	for i, list := range registers {
		var ops []porcupine.Operation
		for _, a := range list {
			end := int64(a.Return)
			if a.Unknown {
				end = math.MaxInt64
			}
			ops = append(ops, porcupine.Operation{ClientId: a.Client, Input: a, Call: int64(a.Call), Return: end})
		}
		if porcupine.CheckOperationsTimeout(registerModel, ops, patience) == porcupine.Illegal {
			return &Violation{Invariant: "Linearizability", Detail: fmt.Sprintf("/k%d: %+v", i, list)}
		}
	}
	return nil
}

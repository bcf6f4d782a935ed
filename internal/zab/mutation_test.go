package zab

import "testing"

// Each known bug is found by the random schedules when it is put back.
func TestMutationsAreFound(t *testing.T) {
	names := map[Mutation]string{
		AckBeforeFsync: "AckBeforeFsync", AcksOutliveLinks: "AcksOutliveLinks", EarlySnapshot: "EarlySnapshot",
		Bug2845: "2845", Bug3023: "3023", Bug3104: "3104", Bug3911: "3911",
		Bug4394: "4394", Bug4643: "4643", Bug4646: "4646", Bug4685: "4685", Bug4712: "4712", Bug4785: "4785", Bug4925: "4925",
	}
	for m := AckBeforeFsync; m <= Bug4925; m++ {
		t.Run(names[m], func(t *testing.T) {
			for seed := uint64(1); seed <= 3000; seed++ {
				if _, err := runSeed(seed, m); err != nil {
					t.Logf("seed %d: %v", seed, err)
					return
				}
			}
			t.Error("not found")
		})
	}
}

package socket

import "testing"

// A caller that has waited for bytes that have not come may consume what there is.
func TestConsumeWhileParked(t *testing.T) {
	var in Input
	in.Init(nil, NewInputPool(64), NewBudget(0))
	in.Append([]byte("stmk"))
	in.park()
	in.Consume(1)
	if got := string(in.Bytes()); got != "tmk" {
		t.Errorf("%q", got)
	}
	in.Append([]byte("!"))
	if got := string(in.Bytes()); got != "tmk!" {
		t.Errorf("%q", got)
	}
	in.park()
	in.Consume(4)
	if in.Len() != 0 || in.account.Held() != 0 {
		t.Errorf("%d bytes are left, %d are charged", in.Len(), in.account.Held())
	}
}

package boottime

import "testing"

func TestNow(t *testing.T) {
	before, err := Now()
	if err != nil {
		t.Fatal(err)
	}
	after, err := Now()
	if err != nil || after < before || before <= 0 {
		t.Fatalf("%v, then %v, %v", before, after, err)
	}
}

package exitcleanup

import (
	"os"
	"strings"
	"testing"
)

func TestStartTicks(t *testing.T) {
	const rest = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21"
	for _, c := range []struct {
		name, stat string
		want       uint64
	}{
		{"plain", "12 (sh)" + rest, 4711},
		{"spaces and parentheses in the command", "12 (a) S 1 (b c)" + rest, 4711},
		{"newline in the command", "12 (a\nb)" + rest, 4711},
		{"short", "12 (sh) S 1 2", 0},
		{"no command", "12 sh S", 0},
		{"not a number", "12 (sh)" + strings.ReplaceAll(rest, "4711", "x"), 0},
		{"empty", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := startTicks([]byte(c.stat)); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestStartTimeIsKnown(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc: ", err)
	}
	if thisProcess().start == 0 {
		t.Error("start time of this process is unknown")
	}
}

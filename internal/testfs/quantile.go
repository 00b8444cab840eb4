package testfs

import (
	"slices"
	"time"
)

// Quantile sorts d and returns the duration that the part q of them does not
// exceed, 0 if there are none.
func Quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))]
}

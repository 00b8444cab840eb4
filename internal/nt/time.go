package nt

import "time"

// A FILETIME counts 100 ns since 1601.
const (
	ticks     = 10_000_000
	to1970    = 11644473600 // seconds
	maxSecond = (1<<63-1)/ticks - to1970
)

// Filetime gives the ticks of a time. It is false for a time that a file cannot
// have: in 1601 and before begin the values with a meaning of their own ("leave it",
// "keep it from now on").
func Filetime(t time.Time) (int64, bool) {
	s := t.Unix()
	if s < -to1970 || s >= maxSecond {
		return 0, false
	}
	n := (s+to1970)*ticks + int64(t.Nanosecond()/100)
	return n, n > 0
}

// Unix gives the seconds and nanoseconds since 1970 of a FILETIME.
func Unix(filetime int64) (sec, nsec int64) {
	return filetime/ticks - to1970, filetime % ticks * 100
}

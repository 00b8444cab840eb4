package lock

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"
)

// createdAt is the field by which a peer's record tells its age.
const createdAt = "createdAt"

// age is what is known of when a record was made.
type age struct {
	since time.Time
	// unsure: the record has a date of its own that a peer may be able to read
	// and this package is not. It counts as fresh.
	unsure bool
}

// stale applies the rule: a date of the record's own wins over the time of
// modification, and the future is fresh.
func (a age) stale(after time.Duration, now time.Time) bool {
	return !a.unsure && after != Never && now.Sub(a.since) > after
}

// ageOf finds the date of a record. payload is its JSON text.
func ageOf(payload []byte, mtime time.Time) age {
	// A map, because the fields of a struct would match in any case.
	var fields map[string]json.RawMessage
	var text *string
	if json.Unmarshal(payload, &fields) != nil || json.Unmarshal(fields[createdAt], &text) != nil || text == nil {
		return age{since: mtime}
	}
	if t, ok := parseDate(*text); ok {
		return age{since: t}
	}
	if strings.ContainsAny(*text, "0123456789") {
		return age{since: mtime, unsure: true}
	}
	// JavaScript's Date.parse reads no date without a digit.
	return age{since: mtime}
}

// dateForm is the date time string of ECMAScript, with the liberties that V8
// takes: a blank for the T, any number of fractional digits, "+00" offsets.
var dateForm = regexp.MustCompile(`^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?([Zz]|[+-]\d\d:?\d\d)?)?$`)

// parseDate reads such a date. One without an offset is local where it has a
// time of day, as ECMAScript says.
func parseDate(text string) (time.Time, bool) {
	m := dateForm.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return time.Time{}, false
	}
	layout, value, zone := "2006-01-02", m[1]+"-"+m[2]+"-"+m[3], time.UTC
	if m[4] != "" {
		seconds := m[6]
		if seconds == "" {
			seconds = "00"
		}
		layout, value = layout+" 15:04:05", value+" "+m[4]+":"+m[5]+":"+seconds
		if m[7] != "" {
			layout, value = layout+".000000000", value+"."+(m[7] + "000000000")[:9]
		}
		if offset := strings.ReplaceAll(strings.ToUpper(m[8]), ":", ""); offset != "" {
			layout, value = layout+"Z0700", value+offset
		} else {
			zone = time.Local
		}
	}
	t, err := time.ParseInLocation(layout, value, zone)
	return t, err == nil
}

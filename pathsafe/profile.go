package pathsafe

import (
	"fmt"
)

// Profile selects a table of rules. Its zero value is the strictest.
type Profile uint8

const (
	// Portable accepts what every supported system can hold under that very
	// spelling. It refuses everything that another table refuses.
	Portable Profile = iota
	// Host has the rules of the system this binary was built for.
	Host
	// POSIX, Windows and Darwin are the tables behind Host. Each gives the same
	// verdicts on every system.
	POSIX
	Windows
	Darwin
)

var profileNames = []string{"portable", "host", "posix", "windows", "darwin"}

func (p Profile) String() string {
	if int(p) < len(profileNames) {
		return profileNames[p]
	}
	return fmt.Sprintf("invalid(%d)", uint8(p))
}

// ParseProfile returns an error for a name that is none of "portable", "host",
// "posix", "windows" and "darwin".
func ParseProfile(s string) (Profile, error) {
	for i, n := range profileNames {
		if n == s {
			return Profile(i), nil
		}
	}
	return 0, fmt.Errorf("pathsafe: no profile %q, want one of %q", s, profileNames)
}

// MarshalText writes the profile's name. It returns an error for a value that
// is none of the constants.
func (p Profile) MarshalText() ([]byte, error) {
	if int(p) >= len(profileNames) {
		return nil, fmt.Errorf("pathsafe: no profile has the number %d", uint8(p))
	}
	return []byte(p.String()), nil
}

// UnmarshalText is ParseProfile.
func (p *Profile) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProfile(string(text))
	return err
}

// Meet returns a profile that accepts only what both accept: Portable, unless
// both have the same table.
func (p Profile) Meet(q Profile) Profile {
	if p.table() == q.table() {
		return min(p, q)
	}
	return Portable
}

// table returns the strictest table for a value that is none of the constants.
func (p Profile) table() *table {
	if p == Host {
		p = hostProfile
	}
	switch p {
	case POSIX:
		return &posixTable
	case Windows:
		return &windowsTable
	case Darwin:
		return &darwinTable
	}
	return &portableTable
}

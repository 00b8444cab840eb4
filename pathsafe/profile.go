package pathsafe

import "fmt"

// Profile selects a table of rules. Its zero value is the strictest.
type Profile uint8

const (
	// Portable accepts what every supported system can hold under that very
	// spelling. It refuses everything the other tables refuse.
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

// MarshalText writes the profile's name.
func (p Profile) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText is ParseProfile.
func (p *Profile) UnmarshalText(text []byte) (err error) {
	*p, err = ParseProfile(string(text))
	return err
}

// Meet returns the profile whose verdicts both allow: Portable, unless both are
// the same table.
func (p Profile) Meet(q Profile) Profile {
	if p == q || p.table() == q.table() && p != Portable {
		return p
	}
	return Portable
}

// table is one set of rules. The limits are bytes, or UTF-16 units where wide.
type table struct {
	backslash    bool // "\" separates too
	maxName      int
	maxComponent int
	wide         bool
	rules        []rule
}

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

func (t *table) separator(c byte) bool { return c == '/' || c == '\\' && t.backslash }

var (
	// The kernel's own limits differ per file system (NAME_MAX 255, PATH_MAX 4096
	// in linux/limits.h), and a walk by component passes PATH_MAX, so the POSIX
	// table leaves components to the kernel and bounds only the work.
	posixTable = table{maxName: 1 << 20, maxComponent: 1 << 20, rules: []rule{ruleNUL}}
	// APFS and HFS+ hold 255 UTF-16 units, and only valid Unicode.
	darwinTable = table{maxName: 1 << 20, maxComponent: 255, wide: true,
		rules: []rule{ruleNUL, ruleUTF8, ruleNamedFork}}
	// NTFS holds 255 UTF-16 units a component, the API 32,767 a path.
	windowsTable = table{backslash: true, maxName: 32000, maxComponent: 255, wide: true,
		rules: []rule{ruleNUL, ruleUTF8, ruleDrive, ruleStream, ruleControl, ruleWildcard,
			ruleDisguised, ruleTrailingDot, ruleTrailingSpace, ruleDevice}}
	// 255 bytes is NAME_MAX of Linux, the tightest; 4,095 bytes its PATH_MAX.
	portableTable = table{maxName: 4095, maxComponent: 255,
		rules: []rule{ruleNUL, ruleUTF8, ruleBackslash, ruleDrive, ruleStream, ruleControl, ruleBidi, ruleWildcard,
			ruleDisguised, ruleTrailingDot, ruleTrailingSpace, ruleDevice, ruleNamedFork}}
)

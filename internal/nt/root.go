package nt

import "strings"

// PathKind is how Win32 reads a path.
type PathKind uint8

const (
	Relative      PathKind = iota // to the current directory
	DriveRelative                 // C:a, to the current directory of a drive
	Rooted                        // \a, on the current drive
	DriveAbsolute                 // C:\a
	Server                        // \\server\share
	Device                        // \\.\a, normalised
	Verbatim                      // \\?\a and \??\a, taken as it is
)

// KindOfPath tells how Win32 reads a path.
func KindOfPath(path string) PathKind {
	slashed := strings.ReplaceAll(path[:min(len(path), 4)], "/", `\`)
	switch {
	case strings.HasPrefix(path, `\\?\`), strings.HasPrefix(path, `\??\`):
		return Verbatim
	case slashed == `\\.\`, slashed == `\\?\`:
		return Device
	case strings.HasPrefix(slashed, `\\`):
		return Server
	case strings.HasPrefix(slashed, `\`):
		return Rooted
	case !hasDrive(path):
		return Relative
	case len(path) > 2 && slashed[2] == '\\':
		return DriveAbsolute
	}
	return DriveRelative
}

// shortPath is where a path is given the prefix that lifts the limit of MAX_PATH:
// that of a directory, whose files have names of 8.3.
const shortPath = 248

// RootPath is the text by which to open the directory path. Full gives the absolute
// form that Win32 makes of a path; it is asked only for a long one, which is then
// opened by its extended form. The name of a volume alone is that of its root
// directory, where Win32 would open the device.
func RootPath(path string, full func(string) (string, error)) (string, error) {
	kind := KindOfPath(path)
	if kind == Verbatim || kind == Device {
		if isVolume(path[4:]) {
			return path + `\`, nil
		}
		return path, nil
	}
	if len(path) < shortPath {
		return path, nil
	}
	path, err := full(path)
	if err != nil {
		return "", err
	}
	switch KindOfPath(path) {
	case DriveAbsolute:
		return `\\?\` + path, nil
	case Server:
		return `\\?\UNC\` + path[2:], nil
	}
	return path, nil
}

// isVolume tells a drive and a volume by its number from a path on one.
func isVolume(name string) bool {
	const volume = "Volume{"
	if strings.ContainsAny(name, `\/`) {
		return false
	}
	return len(name) == 2 && hasDrive(name) ||
		len(name) > len(volume) && strings.EqualFold(name[:len(volume)], volume) && strings.HasSuffix(name, "}")
}

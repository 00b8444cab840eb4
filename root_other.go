//go:build !linux && !darwin && !freebsd && !windows

package caproot

// platform is why Open refuses here.
const platform = "there is no backend for this system"

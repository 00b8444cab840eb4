//go:build !linux && !windows && !darwin

package caproot

// platform is why Open refuses here.
const platform = "there is no backend for this system"

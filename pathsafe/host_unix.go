//go:build !windows && !darwin

package pathsafe

const hostProfile = POSIX

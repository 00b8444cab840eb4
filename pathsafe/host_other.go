//go:build !windows && !darwin

package pathsafe

// hostProfile is what Host means here.
const hostProfile = POSIX

// Package history checks histories of updates by processes that are killed and
// stopped at random.
package history

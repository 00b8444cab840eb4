// Package testfs gives tests what several packages need to show how the code
// behaves on kernels and file systems other than the one at hand.
package testfs

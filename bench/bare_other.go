//go:build !linux

package main

import "os"

func bareOpen(*os.Root, string) []contender { return nil }
func bareStat(*os.Root, string) []contender { return nil }

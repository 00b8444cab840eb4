package main

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed node/package.json
var nodePackage []byte

//go:embed node/peer.mjs
var nodeScript []byte

// nodeKinds are the Node peers; peer.mjs knows them without the first word.
var nodeKinds = []string{"node fs-safe", "node fs-safe-root", "node proper-lockfile"}

// node is a directory with the Node peers installed.
type node string

func installNode(base string) (node, error) {
	dir := filepath.Join(base, "node")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "package.json"), nodePackage, 0o644); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "peer.mjs"), nodeScript, 0o644); err != nil {
		return "", err
	}
	npm := exec.Command("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm install: %w\n%s", err, out)
	}
	return node(dir), nil
}

// command runs a kind of lock in a process of its own: "node X" in Node, all
// else in this program.
func (n node) command(mode, kind, target string, more ...string) *exec.Cmd {
	c := exec.Command("/proc/self/exe", append([]string{lockWorker, mode, kind, target}, more...)...)
	if nodeKind, ok := strings.CutPrefix(kind, "node "); ok {
		c = exec.Command("node", append([]string{filepath.Join(string(n), "peer.mjs"), mode, nodeKind, target}, more...)...)
	}
	c.Stderr = os.Stderr
	return c
}

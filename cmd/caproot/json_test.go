package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caproot/caproot/identity"
)

var update = flag.Bool("update", false, "write testdata/*.json anew")

// jsonLines are command lines with --json on the tree, in the order of docs/cli.md.
var jsonLines = []struct {
	name  string
	args  []string // ROOT, BASE, FILE and SCRAP are filled in
	stdin string
	code  int
}{
	{name: "put", args: []string{"put", "--json", "--parents", "--digest", "--mode", "640", "ROOT", "new/f"}, stdin: "hello"},
	{name: "put-replace", args: []string{"put", "--json", "ROOT", "f"}, stdin: "hello"},
	{name: "put-if-match", args: []string{"put", "--json", "--if-match", "FILE", "ROOT", "f"}, stdin: "hello"},
	{name: "mv", args: []string{"mv", "--json", "ROOT", "f", "dir/h"}},
	{name: "receipt", args: []string{"receipt", "ROOT", "dir"}},
	{name: "receipt-digest", args: []string{"receipt", "--json", "--digest", "ROOT", "dir/g"}},
	{name: "mkdir", args: []string{"mkdir", "--json", "ROOT", "new"}},
	{name: "mkdir-parents", args: []string{"mkdir", "--json", "-p", "ROOT", "a/\xff/b"}}, // case 67
	{name: "rm", args: []string{"rm", "--json", "ROOT", "f"}},
	{name: "rm-tree", args: []string{"rm", "--json", "-r", "ROOT", "dir"}},
	{name: "cat", args: []string{"cat", "--json", "ROOT", "f"}},
	{name: "ls", args: []string{"ls", "--json", "-R", "ROOT"}},
	{name: "stat", args: []string{"stat", "--json", "ROOT", "out"}},
	{name: "check-same", args: []string{"check", "--json", "ROOT", "FILE"}},
	{name: "check-different", args: []string{"check", "--json", "ROOT", "-"}, code: 1,
		stdin: `{"v":1,"op":"put","path":"f","id":{"type":"file","dev":"1","ino":"1"},"size":"7","mode":"0100644","nlink":"1",` +
			`"mtime":"0.000000000","containment":"walked","durability":"none","asked":"none"}`},
	{name: "check-missing", args: []string{"check", "--json", "ROOT", "-"}, code: 1,
		stdin: `{"v":1,"op":"put","path_b64":"/w==","id":{"type":"file","dev":"1","ino":"1"},"size":"7","mode":"0100644","nlink":"1",` +
			`"mtime":"0.000000000","containment":"walked","durability":"none","asked":"none"}`},
	{name: "import", args: []string{"import", "--workers", "1", "ROOT", "BASE", "copy"}, code: 3},
	{name: "import-summary", args: []string{"import", "--json", "--workers", "1", "--receipts", "SCRAP", "ROOT", "BASE", "copy"}, code: 3},
	{name: "names", args: []string{"names", "--json", "a", "CON", "a\xff"}, code: 1},
	{name: "audit", args: []string{"audit", "--json", "ROOT"}, code: 1},
	{name: "lock-status", args: []string{"lock-status", "--json", "ROOT/f"}},
	{name: "lock-status-unknown", args: []string{"lock-status", "--json", "BASE/in"}, code: 1},
	{name: "probe", args: []string{"probe", "--json", "ROOT"}},
}

// The forms are promised to be stable. What differs from run to run is replaced
// by what it is.
func TestJSONForms(t *testing.T) {
	for _, tt := range jsonLines {
		t.Run(tt.name, func(t *testing.T) {
			base, root := tree(t)
			switch tt.name {
			case "ls", "stat", "import", "import-summary", "audit":
				needsLinks(t)
			case "mkdir-parents", "names", "check-missing":
				if filepath.Separator == '\\' {
					t.Skip("names and arguments are UTF-16 here, and not any bytes")
				}
			case "probe":
				if !makesLinks(base) {
					t.Skip("what it tries depends on links and on the system")
				}
			}
			file := filepath.Join(base, "receipt")
			must(t, os.WriteFile(file, []byte(caprootRun(t, "", "receipt", root, "f").out), 0o600))
			must(t, os.WriteFile(filepath.Join(base, "in.lock"), []byte(`{"pid":1}`), 0o600))
			args := make([]string, len(tt.args))
			fill := strings.NewReplacer("ROOT", root, "FILE", file, "SCRAP", filepath.Join(base, "scrap"), "BASE", base)
			for i, arg := range tt.args {
				args[i] = fill.Replace(arg)
			}
			got := caprootRun(t, tt.stdin, args...)
			if got.code != tt.code {
				t.Fatalf("exit %d, want %d; stderr %s", got.code, tt.code, got.err)
			}
			text := generalLines(t, got.out, fill.Replace("ROOT"))
			golden := filepath.Join("testdata", tt.name+".json")
			if *update {
				must(t, os.WriteFile(golden, text, 0o644))
			}
			want, err := os.ReadFile(golden)
			must(t, err)
			if !keepsModes(t) {
				want, text = withoutHost(t, want), withoutHost(t, text)
			}
			if diff := cmp.Diff(string(want), string(text)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", golden, diff)
			}
		})
	}
}

// generalLines replaces what is of this run in lines of JSON and sets them out
// for reading.
func generalLines(t *testing.T, out, root string) []byte {
	t.Helper()
	var text bytes.Buffer
	for line := range strings.Lines(out) {
		var v any
		must(t, json.Unmarshal([]byte(line), &v))
		enc := json.NewEncoder(&text)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		must(t, enc.Encode(general(t, "", v, root)))
	}
	return text.Bytes()
}

// withoutHost leaves out of a form what Windows does otherwise.
func withoutHost(t *testing.T, form []byte) []byte {
	t.Helper()
	var text bytes.Buffer
	for in := json.NewDecoder(bytes.NewReader(form)); in.More(); {
		var v map[string]any
		must(t, in.Decode(&v))
		delete(v, "mode")
		delete(v, "lost")
		if v["published"] == "checked" {
			v["published"] = "swapped"
		}
		must(t, json.NewEncoder(&text).Encode(v))
	}
	return text.Bytes()
}

func general(t *testing.T, key string, v any, root string) any {
	switch v := v.(type) {
	case map[string]any:
		if key == "id" || key == "root" {
			var id identity.ID
			text, err := json.Marshal(v)
			must(t, err)
			must(t, json.Unmarshal(text, &id))
			return "<identity>"
		}
		for k, field := range v {
			v[k] = general(t, k, field, root)
		}
		if v["type"] == "dir" {
			v["size"] = "<of a directory>"
		}
		if v["feature"] != nil {
			delete(v, "value")
			delete(v, "why")
		}
		// A directory's receipt has its size and links by the file system's choice.
		if mode, _ := v["mode"].(string); strings.HasPrefix(mode, "04") {
			v["size"], v["nlink"] = "<of a directory>", "<of a directory>"
		}
		return v
	case []any:
		for i, item := range v {
			v[i] = general(t, key, item, root)
		}
		return v
	case string:
		switch key {
		case "mtime", "since":
			return "<time>"
		case "containment", "here":
			return "<answer>"
		}
		return strings.ReplaceAll(v, root, "<root>")
	}
	return v
}

// A failure gives no object, and no half of one.
func TestNoJSONAfterFailure(t *testing.T) {
	_, root := tree(t)
	for _, args := range [][]string{
		{"put", "--json", "--no-replace", root, "f"}, {"cat", "--json", root, "no"}, {"cat", "--json", root, "dir"},
		{"cat", "--json", "--max-bytes", "3", root, "f"}, {"mkdir", "--json", root, "dir"}, {"mv", "--json", root, "f", "dir"},
		{"rm", "--json", root, "dir"}, {"stat", "--json", root, "no"}, {"ls", "--json", root, "f"}, {"receipt", "--json", root, "no"},
	} {
		if got := caprootRun(t, "x", args...); got.code == 0 || got.out != "" || got.err == "" {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

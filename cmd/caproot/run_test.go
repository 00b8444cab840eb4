package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

// commandLines are command lines on the tree.
var commandLines = map[string]struct {
	args  string // ROOT and NOROOT are filled in
	stdin string
	code  int
	out   string // exact, unless ""
	err   string // part of it
}{
	"cat":              {args: "cat ROOT f", out: "content"},
	"cat escape":       {args: "cat ROOT ../outside/secret", code: 3, err: "caproot: escape: "},
	"cat by link":      {args: "cat ROOT out/secret", code: 3, err: "caproot: escape: "},
	"cat missing":      {args: "cat ROOT no", code: 1, err: `caproot: not-exist: open "no": `},
	"cat directory":    {args: "cat ROOT dir", code: 2, err: "caproot: is-dir: "},
	"cat limit":        {args: "cat --max-bytes 6 ROOT f", code: 3, err: "caproot: too-large: "},
	"cat at limit":     {args: "cat --max-bytes 7 ROOT f", out: "content"},
	"no root":          {args: "cat NOROOT f", code: 66, err: "caproot: not-exist: "},
	"root is a file":   {args: "cat ROOT/f x", code: 66, err: "caproot: not-dir: "},
	"no command":       {args: "", code: 64, err: "caproot: usage: "},
	"unknown command":  {args: "fly ROOT", code: 64, err: "caproot: usage: "},
	"unknown policy":   {args: "cat --policy=lax ROOT f", code: 64, err: "caproot: usage: "},
	"unknown rule":     {args: "cat --links=some ROOT f", code: 64, err: "caproot: usage: "},
	"empty rule":       {args: "cat --links= ROOT f", code: 64, err: "caproot: usage: "},
	"no policy file":   {args: "cat --policy NOROOT.json ROOT f", code: 2, err: "caproot: io: "},
	"limit of zero":    {args: "cat --max-bytes 0 ROOT f", code: 3, err: "caproot: too-large: "},
	"negative limit":   {args: "cat --max-bytes=-1 ROOT f", code: 64, err: "caproot: usage: "},
	"help":             {args: "cat --help"},
	"version":          {args: "--version"},
	"version and more": {args: "--version cat ROOT no"},
	"ls":               {args: "ls ROOT", out: "dir\nf\nout\n"},
	"ls -R":            {args: "ls -R ROOT", out: "dir\ndir/g\nf\nout\n"},
	"ls -R below":      {args: "ls -R ROOT dir", out: "g\n"},
	"ls -R denied":     {args: "ls -R --deny dir ROOT", code: 3, out: "dir\nf\nout\n", err: "caproot: policy: "},
	"ls -lR denied":    {args: "ls -l -R --deny dir ROOT", code: 3, err: "caproot: policy: "},
	"ls outside":       {args: "ls ROOT out", code: 3, err: "caproot: escape: "},
	"ls of a file":     {args: "ls ROOT f", code: 2, err: "caproot: not-dir: "},
	"stat":             {args: "stat ROOT f"},
	"stat missing":     {args: "stat ROOT no", code: 1},
	"stat follows out": {args: "stat -L ROOT out", code: 3, err: "caproot: escape: "},
	"put":              {args: "put ROOT new", stdin: "x"},
	"put dashed":       {args: "put ROOT -- -x", stdin: "x"},
	"put read-only":    {args: "put --policy read-only ROOT new", code: 3, err: "caproot: policy: "},
	"put no-replace":   {args: "put --no-replace ROOT f", code: 1, err: "caproot: exist: "},
	"put escape":       {args: "put ROOT out/new", code: 3, err: "caproot: escape: "},
	"put extract":      {args: "put --policy extract ROOT out/new", code: 3, err: "caproot: symlink: "},
	"put odd name":     {args: "put --names portable ROOT aux", code: 3, err: "caproot: name: "},
	"put too large":    {args: "put --max-bytes 2 ROOT new", stdin: "abc", code: 3, err: "caproot: too-large: "},
	"put bad mode":     {args: "put --mode 9 ROOT new", code: 64},
	"put wide mode":    {args: "put --mode 4755 ROOT new", code: 3, err: "caproot: policy: "},
	"put no parent":    {args: "put ROOT a/b", code: 1},
	"put denied":       {args: "put --deny dir ROOT dir/new", code: 3, err: "caproot: policy: "},
	"put denied later": {args: "put --deny a/b --deny=x,y ROOT --parents a/b", code: 3, err: "caproot: policy: "},
	"put beside":       {args: "put --deny dir/g ROOT dir/new", stdin: "x"},
	"cat denied":       {args: "cat --deny dir/g ROOT dir/g", code: 3, err: "caproot: policy: "},
	"rm denied inside": {args: "rm -r --deny dir/g ROOT dir", code: 3, err: "caproot: policy: "},
	"deny the root":    {args: "cat --deny . ROOT f", code: 3, err: "caproot: name: "},
	"deny outside":     {args: "rm -r --deny ../f ROOT dir", code: 3, err: "caproot: escape: "},
	"put parents":      {args: "put --parents --durability none ROOT a/b"},
	"mkdir":            {args: "mkdir ROOT new"},
	"mkdir escape":     {args: "mkdir ROOT out/new", code: 3, err: "caproot: escape: "},
	"mkdir -p escape":  {args: "mkdir -p ROOT out/a/b", code: 3, err: "caproot: escape: "},
	"mkdir the root":   {args: "mkdir ROOT dir/..", code: 3, err: "caproot: name: "},
	"mkdir exists":     {args: "mkdir ROOT dir", code: 1, err: "caproot: exist: "},
	"mkdir -p":         {args: "mkdir -p ROOT dir/x/y"},
	"mv":               {args: "mv ROOT f h"},
	"mv exists":        {args: "mv ROOT f dir/g", code: 1, err: "caproot: exist: "},
	"mv replace":       {args: "mv --replace ROOT f dir/g"},
	"mv escape":        {args: "mv ROOT f ../f", code: 3, err: "caproot: escape: "},
	"rm":               {args: "rm ROOT f"},
	"rm link itself":   {args: "rm ROOT out"},
	"rm escape":        {args: "rm ROOT out/secret", code: 3, err: "caproot: escape: "},
	"rm -r escape":     {args: "rm -r ROOT ../outside", code: 3, err: "caproot: escape: "},
	"rm -r link":       {args: "rm -r ROOT out/", code: 3, err: "caproot: symlink: "}, // case 34
	"rm the root":      {args: "rm -r ROOT .", code: 3, err: "caproot: name: "},       // case 175
	"rm not empty":     {args: "rm ROOT dir", code: 1, err: "caproot: not-empty: "},
	"rm -r":            {args: "rm -r ROOT dir"},
	"rm -r missing":    {args: "rm -r ROOT no", code: 1},
	"rm -r limits":     {args: "rm -r --max-entries 2 --max-depth 1 ROOT dir"},
	"rm -r entries":    {args: "rm -r --max-entries 1 ROOT dir", code: 3, err: "caproot: too-large: "},
	"rm limits":        {args: "rm --max-depth 1 ROOT f", code: 64},
	"rm -r minus":      {args: "rm -r --max-depth=-1 ROOT dir", code: 64},
	"rm no receipt":    {args: "rm --if-match NOROOT ROOT f", code: 2},
	"receipt missing":  {args: "receipt ROOT no", code: 1, err: "caproot: not-exist: "},
	"receipt escape":   {args: "receipt ROOT out/secret", code: 3, err: "caproot: escape: "},
	"check nothing":    {args: "check ROOT", code: 64},
	"check garbage":    {args: "check ROOT ROOT/f", code: 2, err: "caproot: io: "},
	"names":            {args: "names a b/c", out: "ok\t\"a\"\nok\t\"b/c\"\n"},
	"names refused":    {args: "names CON", code: 1, out: "device-name\t\"CON\"\n"},
	"names -0":         {args: "names -0", stdin: "a\x00b\nc", code: 1, out: "ok\t\"a\"\ncontrol\t\"b\\nc\"\n"},
	"names both":       {args: "names -0 a", code: 64},
	"probe":            {args: "probe ROOT"},
	"probe requires":   {args: "probe --require symlink --require hardlink ROOT"},
	"probe lacks":      {args: "probe --require case-folding ROOT", code: 1, err: "caproot: unsupported: case-folding is required"},
	"probe mistyped":   {args: "probe --require foldcase ROOT", code: 64, err: "caproot: usage: "},
	"audit":            {args: "audit ROOT", code: 1, out: "escaping-link    out  -> ../outside\n", err: "caproot: note: looked at 4 entries: 1 findings"},
	"audit clean":      {args: "-q audit ROOT/dir"},
	"import nothing":   {args: "import NOROOT ROOT", code: 66, err: "caproot: not-exist: "},
	"import by none":   {args: "import --workers 0 ROOT ROOT copy", code: 64, err: "caproot: usage: "},
	"import by many":   {args: "import --workers 65 ROOT ROOT copy", code: 64, err: "caproot: usage: "},
	"import to no":     {args: "import ROOT NOROOT", code: 66, err: "caproot: not-exist: "},
	"probe nowhere":    {args: "probe NOROOT", code: 66},
}

func TestExitCodes(t *testing.T) {
	for name, tt := range commandLines {
		t.Run(name, func(t *testing.T) {
			base, root := tree(t)
			if strings.Contains(tt.args+tt.out, "out") || strings.Contains(tt.args, "link") {
				needsLinks(t)
			}
			if name == "probe lacks" && foldsCase(root) {
				t.Skip("the file system folds case")
			}
			fill := strings.NewReplacer("NOROOT", filepath.Join(base, "none"), "ROOT", root)
			got := caprootRun(t, tt.stdin, strings.Fields(fill.Replace(tt.args))...)
			if got.code != tt.code {
				t.Errorf("exit %d, want %d; stderr %s", got.code, tt.code, got.err)
			}
			if tt.out != "" && got.out != tt.out {
				t.Errorf("stdout %q, want %q", got.out, tt.out)
			}
			if !strings.Contains(got.err, tt.err) || tt.code == 0 && got.err != "" {
				t.Errorf("stderr %q, want %q", got.err, tt.err)
			}
			checkOutside(t, base)
			checkNothingLeft(t, root)
		})
	}
}

func foldsCase(root string) bool {
	_, err := os.Stat(filepath.Join(root, "F"))
	return err == nil
}

// What cannot be proved is a refusal, and it outranks a mere difference.
func TestExitOfMismatch(t *testing.T) {
	for verdict, want := range map[identity.Verdict]int{identity.Unknown: exitRefused, identity.Different: exitNo} {
		if got := exitOf(&caproot.MismatchError{Verdict: verdict}); got != want {
			t.Errorf("%v: exit %d, want %d", verdict, got, want)
		}
	}
	order := []int{exitDone, exitNo, exitRefused, exitFailed, exitNoRoot, exitUsage}
	for i, a := range order {
		for _, b := range order[i:] {
			if worse(a, b) != b || worse(b, a) != b {
				t.Errorf("worse of %d and %d: %d and %d, want %d", a, b, worse(a, b), worse(b, a), b)
			}
		}
	}
}

func TestPutPublishes(t *testing.T) {
	_, root := tree(t)
	got := caprootRun(t, "new", "put", "--json", "--digest", "--mode", "640", root, "f")
	var receipt struct{ Path, SHA256, Mode string }
	must(t, json.Unmarshal([]byte(got.out), &receipt))
	if receipt.Path != "f" || len(receipt.SHA256) != 64 || receipt.Mode != "0100640" && keepsModes(t) {
		t.Errorf("receipt %+v", receipt)
	}
	if data, err := os.ReadFile(filepath.Join(root, "f")); err != nil || string(data) != "new" {
		t.Errorf("content %q, %v", data, err)
	}
}

func TestIfMatch(t *testing.T) {
	base, root := tree(t)
	file := filepath.Join(base, "receipt")
	must(t, os.WriteFile(file, []byte(caprootRun(t, "", "receipt", "--digest", root, "f").out), 0o600))
	if got := caprootRun(t, "", "check", "-q", root, file); got != (result{}) {
		t.Fatalf("check of an untouched file: %+v", got)
	}
	if got := caprootRun(t, "other", "put", root, "f"); got.code != 0 {
		t.Fatalf("put: %+v", got)
	}
	for _, args := range [][]string{{"rm", "--if-match", file, root, "f"}, {"put", "--if-match", file, root, "f"}} {
		if got := caprootRun(t, "x", args...); got.code != 1 || !strings.HasPrefix(got.err, "caproot: changed: ") {
			t.Errorf("%s of another object: %+v", args[0], got)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(root, "f")); string(data) != "other" {
		t.Errorf("content %q after refusals, want %q", data, "other")
	}
	must(t, os.WriteFile(file, []byte(caprootRun(t, "", "receipt", root, "f").out), 0o600))
	if got := caprootRun(t, "", "rm", "--if-match", file, root, "f"); got.code != 0 {
		t.Errorf("rm of the object: %+v", got)
	}
	must(t, os.WriteFile(file, []byte(caprootRun(t, "", "receipt", root, "dir").out), 0o600))
	must(t, os.Rename(filepath.Join(root, "dir"), filepath.Join(root, "moved")))
	must(t, os.Mkdir(filepath.Join(root, "dir"), 0o755))
	if got := caprootRun(t, "", "rm", "-r", "--if-match", file, root, "dir"); got.code != exitNo || !strings.HasPrefix(got.err, "caproot: changed: ") {
		t.Errorf("rm -r of another directory: %+v", got)
	}
	if got := caprootRun(t, "", "rm", "-r", "--if-match", file, root, "moved"); got.code != 0 {
		t.Errorf("rm -r of the directory: %+v", got)
	}
}

// A name must not reach the terminal as a command to it.
func TestNamesAreQuoted(t *testing.T) {
	_, root := tree(t)
	hostile := "a\x1b[2Jb"
	// Windows has no file of such a name; the commands are told it all the same.
	if err := os.WriteFile(filepath.Join(root, hostile), nil, 0o600); err != nil && filepath.Separator == '/' {
		t.Fatal(err)
	}
	for _, got := range []result{
		caprootRun(t, "", "ls", root), caprootRun(t, "", "ls", "-l", root), caprootRun(t, "", "ls", "--json", root),
		caprootRun(t, "", "cat", root, hostile+"x"), caprootRun(t, "", "mv", root, hostile+"x", hostile),
		caprootRun(t, "", "rm", "--if-match", hostile, root, "f"), caprootRun(t, "", hostile),
	} {
		if strings.Contains(got.out+got.err, "\x1b") {
			t.Errorf("raw escape in %q %q", got.out, got.err)
		}
	}
}

func TestListing(t *testing.T) {
	needsLinks(t)
	needsModes(t)
	_, root := tree(t)
	lines := strings.Split(strings.TrimSpace(caprootRun(t, "", "ls", "--json", root).out), "\n")
	var types []string
	for _, line := range lines {
		var e entry
		must(t, json.Unmarshal([]byte(line), &e))
		types = append(types, *e.Name+" "+e.Type)
	}
	if got, want := strings.Join(types, ", "), "dir dir, f file, out symlink"; got != want {
		t.Errorf("ls --json: %s, want %s", got, want)
	}
	if got := caprootRun(t, "", "stat", root, "f").out; !strings.HasPrefix(got, "file      0644            7 ") {
		t.Errorf("stat: %q", got)
	}
}

// case 171: an entry that vanishes while it is listed is no failure.
func TestListingOfVanished(t *testing.T) {
	_, root := tree(t)
	r, err := caproot.Open(root, caproot.Workspace())
	must(t, err)
	defer r.Close()
	entries, err := r.ReadDir(".")
	must(t, err)
	must(t, os.Remove(filepath.Join(root, "f")))
	var out, errOut strings.Builder
	s := &session{out: &out, err: &errOut}
	code := exitDone
	for _, e := range entries {
		must(t, (&lsCommand{Long: true}).show(s, e, e.Name(), &code))
	}
	if code != exitDone || errOut.Len() > 0 || strings.Count(out.String(), "\n") != len(entries)-1 {
		t.Errorf("exit %d, stdout %q, stderr %q", code, out.String(), errOut.String())
	}
}

// The version is that of the build, in one line that begins with the name.
func TestVersion(t *testing.T) {
	got := caprootRun(t, "", "--version")
	if words := strings.Fields(got.out); got.code != 0 || got.err != "" || strings.Count(got.out, "\n") != 1 || len(words) < 3 ||
		words[0] != "caproot" || words[len(words)-1] != runtime.Version() {
		t.Errorf("%+v", got)
	}
}

// What nothing proves to be the expected object is refused, by each command alike.
func TestIfMatchWithoutProof(t *testing.T) {
	base, root := tree(t)
	for _, name := range []string{"f", "dir"} {
		var receipt identity.Receipt
		must(t, json.Unmarshal([]byte(caprootRun(t, "", "receipt", root, name).out), &receipt))
		receipt.ID.Handle, receipt.ID.HasGen = "", false
		text, err := json.Marshal(receipt)
		must(t, err)
		file := filepath.Join(base, "receipt")
		must(t, os.WriteFile(file, text, 0o600))
		for _, args := range []string{"put --if-match FILE ROOT f", "rm --if-match FILE ROOT f", "rm -r --if-match FILE ROOT dir", "check ROOT FILE"} {
			if strings.HasSuffix(args, " f") && name != "f" || strings.HasSuffix(args, " dir") && name != "dir" {
				continue
			}
			got := caprootRun(t, "", strings.Fields(strings.NewReplacer("FILE", file, "ROOT", root).Replace(args))...)
			if got.code != exitRefused {
				t.Errorf("%s: %+v", args, got)
			}
		}
	}
}

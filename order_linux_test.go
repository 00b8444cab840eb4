package caproot

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// sequence keeps the events that decide durability.
func (s *seam) sequence() (kept []string) {
	for _, event := range s.log {
		switch word, _, _ := strings.Cut(event, " "); word {
		case "mkdir", "write", "chmod", "sync", "publish", "rename", "link", "remove":
			kept = append(kept, event)
		}
	}
	return kept
}

// case 96: content is flushed before it has the name, the directory after, made
// parents with the directory that they are in; less durability leaves the
// flushes out and changes nothing else.
func TestDurableOrder(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(r *Root) error
		dir  string
		file string // where it differs
		none string
	}{
		"create": {
			put:  func(r *Root) error { return putAs(r, "new", PutOptions{Mode: 0o640}) },
			dir:  "write; chmod file; sync file; publish new; sync dir",
			file: "write; chmod file; sync file; publish new",
			none: "write; chmod file; publish new",
		},
		"replace": {
			put:  func(r *Root) error { return putAs(r, "f", PutOptions{Mode: 0o640}) },
			dir:  "write; chmod file; sync file; publish STAGE; rename replace STAGE f; sync dir",
			file: "write; chmod file; sync file; publish STAGE; rename replace STAGE f",
			none: "write; chmod file; publish STAGE; rename replace STAGE f",
		},
		"parents": {
			put: func(r *Root) error { return putAs(r, "a/b/new", PutOptions{Parents: true}) },
			// The umask of the test is 077, so the exact mode needs no chmod.
			dir:  "mkdir a; sync dir; mkdir b; sync dir; write; sync file; publish new; sync dir",
			file: "mkdir a; mkdir b; write; sync file; publish new",
			none: "mkdir a; mkdir b; write; publish new",
		},
		"append": {
			put: func(r *Root) error {
				_, err := r.Append("f", []byte("x"), AppendOptions{})
				return err
			},
			dir:  "write; sync file; sync dir",
			file: "write; sync file",
			none: "write",
		},
	} {
		for d, expect := range map[Durability]string{DurabilityDir: c.dir, DurabilityFile: c.file, DurabilityNone: c.none} {
			t.Run(name+"/"+d.String(), func(t *testing.T) {
				p := Workspace()
				p.Durability = d
				eachResolver(t, p, func(t *testing.T, r *Root, base string) {
					defer umask(0o077)()
					s := hook(r, nil)
					must(t, c.put(r))
					if got := strings.Join(s.sequence(), "; "); got != expect {
						t.Errorf("%s\nwant %s", got, expect)
					}
				})
			})
		}
	}
}

func putAs(r *Root, name string, o PutOptions) error {
	_, err := r.Put(name, []byte("x"), o)
	return err
}

// The same order with the named stage and with the exchange.
func TestDurableOrderOfFallbacks(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		old, err := r.Receipt("f")
		must(t, err)
		for _, c := range []struct {
			o       PutOptions
			missing string
			expect  string
		}{
			{PutOptions{IfMatch: &old}, "none", "write; chmod file; sync file; publish STAGE; rename exchange STAGE f; remove STAGE; sync dir"},
			{PutOptions{}, "unnamed", "write; chmod file; sync file; rename replace STAGE f; sync dir"},
			{PutOptions{}, "publish", "write; chmod file; sync file; publish STAGE; write; chmod file; sync file; rename replace STAGE f; sync dir"},
		} {
			s := hook(r, answers(map[string]error{c.missing: syscall.EOPNOTSUPP}))
			c.o.Mode, c.o.Durability = 0o640, DurabilityDir
			must(t, putAs(r, "f", c.o))
			if got := strings.Join(s.sequence(), "; "); got != c.expect {
				t.Errorf("%s\nwant %s", got, c.expect)
			}
			r.sys = s.system
		}
	})
}

// case 96 as the kernel sees it.
func TestDurableOrderByTrace(t *testing.T) {
	if dir := os.Getenv("CAPROOT_TRACED_PUT"); dir != "" {
		r, err := Open(dir, Workspace())
		must(t, err)
		must(t, putAs(r, "f", PutOptions{Durability: DurabilityDir}))
		must(t, putAs(r, "made/new", PutOptions{Durability: DurabilityDir, Parents: true}))
		return
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("no strace: %v", err)
	}
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", []byte("old"), 0o600))
	trace := t.TempDir() + "/trace"
	cmd := exec.Command(strace, "-f", "-y", "-o", trace, "-e", "trace=mkdirat,write,fsync,linkat,renameat2",
		os.Args[0], "-test.run=^TestDurableOrderByTrace$")
	cmd.Env = append(os.Environ(), "CAPROOT_TRACED_PUT="+dir, "GOMAXPROCS=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		if strings.Contains(string(out), "PTRACE") || strings.Contains(string(out), "ptrace") {
			t.Skipf("strace may not trace here: %s", out)
		}
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(trace)
	must(t, err)
	var calls []string
	call := regexp.MustCompile(`(mkdirat|write|fsync|linkat|renameat2)\(\d+<` + regexp.QuoteMeta(dir) + `([^>]*)>`)
	for line := range strings.Lines(string(text)) {
		m := call.FindStringSubmatch(line)
		switch {
		case m == nil || strings.Contains(line, "= -1 EBADF"): // an O_PATH descriptor is opened again to be flushed
		case m[1] == "fsync" && (m[2] == "" || m[2] == "/made"):
			calls = append(calls, "fsync dir")
		default:
			calls = append(calls, m[1])
		}
	}
	expect := []string{"write", "fsync", "linkat", "renameat2", "fsync dir", "mkdirat", "fsync dir", "write", "fsync", "linkat", "fsync dir"}
	if !slices.Equal(calls, expect) {
		t.Errorf("calls %q\nwant %q\n%s", calls, expect, text)
	}
}

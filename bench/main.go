// Command bench prints how caproot compares with its peers: ratios of medians
// over interleaved rounds on one machine. Times by themselves mean nothing.
// "bench" alone compares Root, "bench trees" walks, removals and batches,
// "bench locks" the locks.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/google/renameio/v2"

	"github.com/caproot/caproot"
)

// contender is one way to do the work of a row.
type contender struct {
	name string
	run  func() error
}

// row is one kind of work; the first contender is caproot.
type row struct {
	work       string
	contenders []contender
}

func main() {
	dir := flag.String("dir", "", "directory to work in; a new temporary one if empty")
	rounds := flag.Int("rounds", 15, "interleaved rounds")
	flag.Parse()
	suite := run
	switch flag.Arg(0) {
	case "":
	case "trees":
		suite = runTrees
	case "locks":
		suite = runLocks
	case lockWorker:
		suite = func(string, int) error { return workLocks(flag.Args()[1:]) }
	default:
		suite = func(string, int) error { return fmt.Errorf("no suite %q", flag.Arg(0)) }
	}
	if err := suite(*dir, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(dir string, rounds int) error {
	base, err := os.MkdirTemp(dir, "caproot-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(base)
	rows, err := rows(base)
	if err != nil {
		return err
	}
	t := newTable()
	defer t.Flush()
	for _, r := range rows {
		medians, err := measure(r.contenders, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", r.work, err)
		}
		names := make([]string, len(r.contenders))
		for i, c := range r.contenders {
			names[i] = c.name
		}
		t.add(r.work, names, medians)
	}
	return nil
}

// table prints a row for each work.
type table struct{ *tabwriter.Writer }

func newTable() table {
	t := table{tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)}
	fmt.Fprintln(t, "work\tcaproot\tratio to each peer (below 1: caproot is faster)")
	return t
}

func (t table) add(work string, names []string, medians []time.Duration) {
	fmt.Fprintf(t, "%s\t%v\t", work, medians[0])
	for i, name := range names[1:] {
		fmt.Fprintf(t, "%.2fx %s  ", float64(medians[0])/float64(medians[i+1]), name)
	}
	fmt.Fprintln(t)
}

// measure runs the contenders in turns and returns the median time of one call each.
func measure(contenders []contender, rounds int) ([]time.Duration, error) {
	timings := make([]timing, len(contenders))
	for i, c := range contenders {
		timings[i] = func() (time.Duration, error) {
			took, err := repeat(c.run, 4*time.Millisecond)
			if err != nil {
				err = fmt.Errorf("%s: %w", c.name, err)
			}
			return took, err
		}
	}
	return interleave(timings, rounds)
}

// timing takes the time of one call, over some.
type timing func() (time.Duration, error)

func interleave(timings []timing, rounds int) ([]time.Duration, error) {
	times := make([][]time.Duration, len(timings))
	for round := range rounds + 1 {
		for i, one := range timings {
			took, err := one()
			if err != nil {
				return nil, err
			}
			if round > 0 { // the first warms the caches
				times[i] = append(times[i], took)
			}
		}
	}
	medians := make([]time.Duration, len(timings))
	for i, t := range times {
		slices.Sort(t)
		medians[i] = t[len(t)/2]
	}
	return medians, nil
}

// repeat runs work for a slice of time and returns the mean of one call.
func repeat(work func() error, slice time.Duration) (time.Duration, error) {
	n, start := 0, time.Now()
	for time.Since(start) < slice {
		for range 8 {
			if err := work(); err != nil {
				return 0, err
			}
			n++
		}
	}
	return time.Since(start) / time.Duration(n), nil
}

func closed(c io.Closer, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

func rows(base string) ([]row, error) {
	r, err := caproot.Open(base, caproot.Workspace())
	if err != nil {
		return nil, err
	}
	compat, err := caproot.Open(base, caproot.Compat())
	if err != nil {
		return nil, err
	}
	o, err := os.OpenRoot(base)
	if err != nil {
		return nil, err
	}
	var out []row
	for _, depth := range []int{1, 4, 8, 16} {
		name := strings.Repeat("d/", depth-1) + "f"
		if err := os.MkdirAll(filepath.Dir(filepath.Join(base, name)), 0o755); err != nil {
			return nil, err
		}
		path := filepath.Join(base, name)
		if err := os.WriteFile(path, make([]byte, 1024), 0o644); err != nil {
			return nil, err
		}
		out = append(out, openRows(depth, name, path, r, compat, o)...)
	}
	out = append(out, statRows(base, r, o)...)
	more, err := readRows(base, r, o)
	if err != nil {
		return nil, err
	}
	puts, err := putRows(base, r)
	if err != nil {
		return nil, err
	}
	return slices.Concat(out, more, puts), nil
}

func openRows(depth int, name, path string, r, compat *caproot.Root, o *os.Root) []row {
	byPath := contender{"os", func() error { f, err := os.Open(path); return closed(f, err) }}
	byRoot := contender{"os.Root", func() error { f, err := o.Open(name); return closed(f, err) }}
	view := append([]contender{byPath, byRoot}, bareOpen(o, name)...)
	return []row{
		{fmt.Sprintf("OpenView, depth %d", depth), append([]contender{
			{"caproot", func() error { f, err := r.OpenView(name, os.O_RDONLY, 0); return closed(f, err) }}}, view...)},
		{fmt.Sprintf("OpenView under Compat, depth %d", depth), append([]contender{
			{"caproot", func() error { f, err := compat.OpenView(name, os.O_RDONLY, 0); return closed(f, err) }}}, view...)},
		{fmt.Sprintf("Open, depth %d", depth), []contender{
			{"caproot", func() error { f, err := r.Open(name); return closed(f, err) }}, byPath, byRoot}},
		{fmt.Sprintf("Open under Compat, depth %d", depth), []contender{
			{"caproot", func() error { f, err := compat.Open(name); return closed(f, err) }}, byPath, byRoot}},
	}
}

func statRows(base string, r *caproot.Root, o *os.Root) []row {
	name := "d/d/d/f"
	path := filepath.Join(base, name)
	top := filepath.Join(base, "d")
	join := contender{"securejoin", func() error {
		p, err := securejoin.SecureJoin(base, name)
		if err == nil {
			_, err = os.Lstat(p)
		}
		return err
	}}
	return []row{
		{"Stat, depth 4", append([]contender{
			{"caproot", func() error { _, err := r.Stat(name); return err }},
			{"os", func() error { _, err := os.Stat(path); return err }},
			{"os.Root", func() error { _, err := o.Stat(name); return err }}, join}, bareStat(o, name)...)},
		{"Lstat, depth 1", []contender{
			{"caproot", func() error { _, err := r.Lstat("d"); return err }},
			{"os", func() error { _, err := os.Lstat(top); return err }},
			{"os.Root", func() error { _, err := o.Lstat("d"); return err }}}},
		{"Lstat, depth 4", []contender{
			{"caproot", func() error { _, err := r.Lstat(name); return err }},
			{"os", func() error { _, err := os.Lstat(path); return err }},
			{"os.Root", func() error { _, err := o.Lstat(name); return err }}, join}},
		{"Exists, depth 4", []contender{
			{"caproot", func() error { _, err := r.Exists(name); return err }},
			{"os.Lstat", func() error { _, err := os.Lstat(path); return err }}}},
		{"Exists, missing", []contender{
			{"caproot", func() error { _, err := r.Exists(name + "x"); return err }},
			{"os.Lstat", func() error { os.Lstat(path + "x"); return nil }}}},
	}
}

func readRows(base string, r *caproot.Root, o *os.Root) (out []row, err error) {
	for _, size := range []int{1 << 10, 64 << 10, 4 << 20} {
		name := fmt.Sprintf("d/d/d/size%d", size)
		path := filepath.Join(base, name)
		if err := os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o644); err != nil {
			return nil, err
		}
		buf := make([]byte, 0, size+1)
		peers := []contender{
			{"os", func() error { _, err := os.ReadFile(path); return err }},
			{"os.Root", func() error { _, err := o.ReadFile(name); return err }},
		}
		out = append(out,
			row{fmt.Sprintf("ReadFile %d KiB", size>>10), append([]contender{
				{"caproot", func() error { _, err := r.ReadFile(name); return err }}}, peers...)},
			row{fmt.Sprintf("AppendFile %d KiB", size>>10), append([]contender{
				{"caproot", func() error { _, err := r.AppendFile(buf, name); return err }}}, peers...)})
	}
	return out, nil
}

func putRows(base string, r *caproot.Root) ([]row, error) {
	data := make([]byte, 4<<10)
	path := filepath.Join(base, "put")
	count := 0
	fresh := func() string { count++; return fmt.Sprintf("new/%d", count) }
	os.Mkdir(filepath.Join(base, "new"), 0o755)
	p, both := caproot.PutOptions{Durability: caproot.DurabilityFile}, caproot.PutOptions{Durability: caproot.DurabilityDir}
	unflushed := caproot.Workspace()
	unflushed.Durability = caproot.DurabilityVolatile
	volatile, err := caproot.Open(base, unflushed)
	if err != nil {
		return nil, err
	}
	loose, err := caproot.Open(base, loosePolicy())
	if err != nil {
		return nil, err
	}
	denying, err := denyRows(base, loose, data)
	if err != nil {
		return nil, err
	}
	return append(denying, []row{
		{"Put 4 KiB, not synced, new", []contender{
			{"caproot", func() error { _, err := loose.Put(fresh(), data, caproot.PutOptions{}); return err }},
			{"os.WriteFile", func() error { return os.WriteFile(filepath.Join(base, fresh()), data, 0o644) }},
			{"os.CreateTemp and Rename", func() error { return tempAndRename(filepath.Join(base, fresh()), data) }}}},
		{"Put 4 KiB, not synced, existing", []contender{
			{"caproot", func() error { _, err := loose.Put("put", data, caproot.PutOptions{}); return err }},
			{"os.WriteFile", func() error { return os.WriteFile(path, data, 0o644) }}}},
		{"Put 4 KiB, file synced", []contender{
			{"caproot", func() error { _, err := r.Put("put", data, p); return err }},
			{"renameio", func() error { return renameio.WriteFile(path, data, 0o644) }}}},
		{"Put 4 KiB, file and directory synced", []contender{
			{"caproot", func() error { _, err := r.Put("put", data, both); return err }},
			{"renameio, file only", func() error { return renameio.WriteFile(path, data, 0o644) }}}},
		{"Put 4 KiB, volatile, existing", []contender{
			{"caproot", func() error { _, err := volatile.Put("put", data, caproot.PutOptions{}); return err }},
			{"os.WriteFile", func() error { return os.WriteFile(path, data, 0o644) }}}},
	}...), nil
}

// denyRows compare grants that deny something with one that denies nothing.
func denyRows(base string, loose *caproot.Root, data []byte) (out []row, err error) {
	var puts []contender
	for _, n := range []int{1, 100, 0} {
		grant, err := grantDenying(base, loose, n)
		if err != nil {
			return nil, err
		}
		puts = append(puts, contender{"none denied", func() error { _, err := grant.Put("put", data, caproot.PutOptions{}); return err }})
	}
	plain := contender{"no grant", func() error { _, err := loose.Put("put", data, caproot.PutOptions{}); return err }}
	return []row{
		{"Put 4 KiB, not synced, 1 denied name", []contender{puts[0], puts[2], plain}},
		{"Put 4 KiB, not synced, 100 denied names", []contender{puts[1], puts[2], plain}},
	}, nil
}

// tempAndRename is how a file is replaced by hand.
func tempAndRename(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "put")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// grantDenying grants the directory of r without n directories in it.
func grantDenying(base string, r *caproot.Root, n int) (*caproot.Root, error) {
	var deny []string
	for i := range n {
		name := fmt.Sprintf("denied/%d", i)
		if err := os.MkdirAll(filepath.Join(base, name), 0o755); err != nil {
			return nil, err
		}
		deny = append(deny, name)
	}
	return r.Grant(".", caproot.Grant{Policy: r.Policy(), Deny: deny})
}

func loosePolicy() caproot.Policy {
	p := caproot.Workspace()
	p.Durability = caproot.DurabilityNone
	return p
}

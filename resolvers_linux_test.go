package caproot

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/caproot/caproot/identity"
)

// planPolicy is a preset or any policy that both resolvers can have.
var planPolicy = rapid.Custom(func(t *rapid.T) Policy {
	inRoot := Compat()
	inRoot.Links, inRoot.MutationLinks = LinksResolveInRoot, LinksResolveInRoot
	p := rapid.SampledFrom([]Policy{Workspace(), Extract(), Compat(), ReadOnly(), inRoot, {}}).Draw(t, "preset")
	if p == (Policy{}) {
		p = anyPolicy(t)
		p.Rights |= rapid.SampledFrom([]Rights{0, AllRights}).Draw(t, "all rights")
		p.Modes |= rapid.SampledFrom([]Policy{{}, Compat()}).Draw(t, "all modes").Modes
		p.MaxReadBytes, p.MaxWriteBytes = max(p.MaxReadBytes, 16), max(p.MaxWriteBytes, 16)
	}
	p.Bind, p.Containment = BindHandle, Walked
	return p
})

// moreVerbs are the verbs that os.Root does not have.
var moreVerbs = map[string]func(r *Root, o operation) (string, error){
	"Put": func(r *Root, o operation) (string, error) {
		return outline(r.Put(o.a, []byte(o.b), PutOptions{Digest: true, Parents: o.flag&1 != 0, NoReplace: o.flag&2 != 0, Ancestry: true}))
	},
	"Append": func(r *Root, o operation) (string, error) {
		return outline(r.Append(o.a, []byte(o.b), AppendOptions{}))
	},
	"Move": func(r *Root, o operation) (string, error) {
		return outline(r.Move(o.a, o.b, MoveOptions{Replace: o.flag&1 != 0}))
	},
	"Receipt": func(r *Root, o operation) (string, error) { return outline(r.Receipt(o.a, WithDigest, WithAncestry)) },
	"Exists": func(r *Root, o operation) (string, error) {
		ok, err := r.Exists(o.a)
		return fmt.Sprint(ok), err
	},
	"ReadDir": func(r *Root, o operation) (string, error) {
		entries, err := r.ReadDir(o.a)
		return fmt.Sprint(entries), err
	},
	"Truncate": func(r *Root, o operation) (string, error) { return "", r.Truncate(o.a, 3) },
	"RemoveIf": func(r *Root, o operation) (string, error) {
		receipt, err := r.Receipt(o.b)
		if err != nil {
			return "", err
		}
		return "", r.RemoveIf(o.a, receipt)
	},
	"OpenRoot": func(r *Root, o operation) (string, error) {
		sub, err := r.OpenRoot(o.a)
		if err != nil {
			return "", err
		}
		defer sub.Close()
		entries, err := sub.ReadDir(".")
		return fmt.Sprint(entries), err
	},
}

// outline is what of a receipt must agree.
func outline(r identity.Receipt, err error) (string, error) {
	return fmt.Sprint(r.Op, r.Path, r.Mode, r.SHA256, r.Published, len(r.Ancestry)), err
}

// The two resolvers are one in everything but how: under any policy the same
// plan has the same answers, by code, and leaves the same tree.
func TestResolversAgree(t *testing.T) {
	if !kernelResolves() {
		t.Skip("no openat2 on this system")
	}
	extra := make([]string, 0, len(moreVerbs))
	for verb := range moreVerbs {
		extra = append(extra, verb)
	}
	slices.Sort(extra)
	check(t, func(rt *rapid.T) {
		p := planPolicy.Draw(rt, "policy")
		plan := rapid.SliceOfN(anyOperation, 10, 50).Draw(rt, "plan")
		var roots [2]*Root
		var bases [2]string
		for i := range roots {
			bases[i] = newTwin(t)
			defer discard(bases[i])
			r, err := Open(bases[i]+"/root", p)
			must(t, err)
			defer r.Close()
			roots[i] = r
		}
		roots[1].beneath = nil
		before := [2]string{seal(t, bases[0]+"/outside"), seal(t, bases[1]+"/outside")}
		for i, op := range plan {
			if i%3 == 0 {
				op.verb = rapid.SampledFrom(extra).Draw(rt, "verb")
				op.b = anyName.Draw(rt, "b")
				op.flag = rapid.IntRange(0, 3).Draw(rt, "options")
			}
			var saw [2]string
			for j, r := range roots {
				var text string
				var err error
				if run, ok := moreVerbs[op.verb]; ok {
					text, err = run(r, op)
				} else {
					text, err = planVerbs[op.verb](r, op)
				}
				saw[j] = Code(err) + " " + text + "\n" + tree(t, bases[j])
			}
			if os.Geteuid() != 0 && strings.HasPrefix(saw[0], "permission ") && saw[0] != saw[1] {
				return // the kernel wants the right to search what ".." leaves, the walk does not
			}
			if saw[0] != saw[1] {
				rt.Fatalf("step %d, %v: the kernel's resolver gives\n%s\nthe walker\n%s", i, op, saw[0], saw[1])
			}
		}
		for i, base := range bases {
			if after := seal(t, base+"/outside"); after != before[i] {
				rt.Fatalf("outside changed:\n%s\nwas\n%s", after, before[i])
			}
		}
	})
}

// The kernel's resolver clamps by itself: where the policy accepts no walk, what
// would leave the root starts at it.
func TestKernelResolvesInRoot(t *testing.T) {
	if !kernelResolves() {
		t.Skip("no openat2 on this system")
	}
	p := Compat()
	p.Links, p.MutationLinks, p.Containment = LinksResolveInRoot, LinksResolveInRoot, KernelAtomic
	base := newTwin(t)
	must(t, os.Symlink("/b", base+"/root/absolute"))
	must(t, os.Symlink("../../../b", base+"/root/a/above"))
	r, err := Open(base+"/root", p)
	must(t, err)
	defer r.Close()
	for _, name := range []string{"absolute", "a/above", "../b", "a/../../../b"} {
		if data, err := r.ReadFile(name); string(data) != "secret" {
			t.Errorf("ReadFile(%q): %q, %v", name, data, err)
		}
		want(t, "Chtimes "+name, r.Chtimes(name, epoch, epoch), nil)
	}
}

package attack

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caproot/caproot"
)

// verb is one call with a name and a second one, and what it gave.
type verb struct {
	name string
	call func(name, other string) (any, error)
}

// verbsOf are the verbs on a root under attack.
func verbsOf(r *caproot.Root, a *arena) []verb {
	return slices.Concat(readingVerbs(r), publishingVerbs(r), unnamedVerbs(r), inPlaceVerbs(r), namingVerbs(r),
		copyingVerbs(r, a.calm, a.sink), grantVerbs(r), lockVerbs(r), builtVerbs(r))
}

// nameless are the methods of Root that resolve no name.
var nameless = []string{"Close", "File", "Identity", "Name", "Numbers", "Policy", "Spent", "Wait"}

// A verb that is added to Root is attacked, or is seen to need no attack.
func TestEveryVerbIsAttacked(t *testing.T) {
	a := newArena(t)
	r, err := caproot.Open(a.root, caproot.Workspace())
	must(t, err)
	t.Cleanup(func() { r.Close() })
	attacked := map[string]bool{}
	for _, v := range verbsOf(r, a) {
		method, _, _ := strings.Cut(v.name, " ")
		attacked[method] = true
	}
	for method := range reflect.TypeOf(r).Methods() {
		if attacked[method.Name] == slices.Contains(nameless, method.Name) {
			t.Errorf("%s: attacked %v, nameless %v", method.Name, attacked[method.Name], slices.Contains(nameless, method.Name))
		}
	}
}

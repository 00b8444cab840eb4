package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caproot/caproot/identity"
)

// thefts are what another process does to the stage of a move.
func thefts(base string) map[string]func() {
	m := base + "/root/m/"
	away := func() (stage string) {
		found, _ := filepath.Glob(m + stagePrefix + "*")
		if len(found) == 0 || os.Rename(found[0], m+"taken") != nil {
			return ""
		}
		return found[0]
	}
	return map[string]func(){
		putsDirectory: func() {
			if stage := away(); stage != "" {
				os.Mkdir(stage, 0o755)
				os.WriteFile(stage+"/theirs", []byte("theirs"), 0o600)
			}
		},
		"put a link to outside there": func() {
			if stage := away(); stage != "" {
				os.Symlink(base+"/outside", stage)
			}
		},
		"take it away": func() { away() },
		"take a file out": func() {
			if found, _ := filepath.Glob(m + stagePrefix + "*/a"); len(found) > 0 {
				os.Rename(found[0], m+"taken")
			}
		},
	}
}

const putsDirectory = "put a directory of its own there"

// foreignKept sees that the directory which another process put there is whole.
func foreignKept(t *testing.T, base, theft string) bool {
	t.Helper()
	if theft != putsDirectory || !exists(base+"/root/m/taken") {
		return true
	}
	found, err := filepath.Glob(base + "/root/m/" + stagePrefix + "*/theirs")
	must(t, err)
	return len(found) == 1
}

// The window is from the refusal of a move to another file system to the end of its
// clean-up: before each call of the kernel in it another process takes the half
// copy, or its name. What it put there stays, what it took stays charged.
func TestMoveStageTaken(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for theft, steal := range thefts(base) {
			for _, name := range []string{"tree", "link"} {
				for k, more := 0, true; more; k++ {
					sources(t, base)
					what := fmt.Sprintf("%s, %s at %d", name, theft, k)
					refused := false
					stolen := k == 0
					var events func(string) error
					sub, err := r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}, Before: func(m Mutation) error {
						if m.Step != StepAttrib && m.Step != StepPublish || strings.Contains(m.Path, "/sub") || m.Verb == "copyin" {
							return nil
						}
						if refused = true; k == 0 {
							steal()
						}
						return errNo
					}})
					must(t, err)
					events = nth(k, "", func() { stolen = true; steal() })
					hook(sub, func(event string) error {
						if refused {
							return events(event)
						}
						return nil
					})
					receipt, err := sub.Move(name, "m/new", MoveOptions{CrossDevice: true})
					want(t, what, err, errNo)
					if !refused || receipt.Published != identity.Unpublished {
						t.Errorf("%s: %v, %+v, %v", what, refused, receipt, err)
					}
					if !foreignKept(t, base, theft) {
						t.Errorf("%s: removed what is another's", what)
					}
					charged(t, what, sub, base)
					must(t, sub.Close())
					more = stolen
				}
			}
		}
		sources(t, base)
	})
}

// The window is between the call that makes the stage and the one that holds it.
func TestMoveStageTakenAtOnce(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for theft, steal := range thefts(base) {
			for _, name := range []string{"tree", "link"} {
				sources(t, base)
				source := seal(t, base+"/root/"+name)
				sub, err := r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}})
				must(t, err)
				hook(sub, once("open STAGE", steal))
				_, err = sub.Move(name, "m/new", MoveOptions{CrossDevice: true})
				what := name + ", " + theft
				if theft != "take a file out" {
					want(t, what, err, ErrChanged)
				}
				if err != nil && seal(t, base+"/root/"+name) != source || errors.Is(err, fs.ErrNotExist) || !foreignKept(t, base, theft) {
					t.Errorf("%s: %v", what, err)
				}
				charged(t, what, sub, base)
				must(t, sub.Close())
			}
		}
		sources(t, base)
	})
}

// charged sees that what was taken is charged.
func charged(t *testing.T, what string, sub *Root, base string) {
	t.Helper()
	spent, there := sub.Spent(), Budget{}
	if exists(base + "/root/m/taken") {
		_, there = shape(t, base+"/root/m/taken")
	}
	if spent.Files < there.Files || spent.Bytes < there.Bytes {
		t.Errorf("%s: spent %+v, taken %+v", what, spent, there)
	}
}

// The twin takes the half copy away by its name.
func TestMoveStageTakenTwin(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		sources(t, base)
		stage := base + "/root/m/" + newStageName()
		must(t, os.Mkdir(stage, 0o700))
		thefts(base)[putsDirectory]()
		must(t, filepath.WalkDir(stage, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				err = os.Remove(path)
			}
			return err
		}))
		if foreignKept(t, base, putsDirectory) {
			t.Error("the look at the foreign directory finds nothing")
		}
		sources(t, base)
	})
}

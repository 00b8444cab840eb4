package caproot

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z][A-Za-z0-9]*`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z][A-Za-z0-9]*)\(`)
)

// Each test that the documentation takes for evidence exists.
func TestDocumentedTestsExist(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	must(t, err)
	if len(pages) == 0 {
		t.Skip("not in the source tree")
	}
	have := map[string]bool{}
	must(t, filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(source, -1) {
			have[string(m[1])] = true
		}
		return err
	}))
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		must(t, err)
		for _, name := range testName.FindAllString(string(text), -1) {
			if named++; !have[name] {
				t.Errorf("%s names %s, and there is none", page, name)
			}
		}
	}
	if named == 0 {
		t.Error("no page names a test")
	}
}

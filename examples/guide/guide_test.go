// Package guide_test holds the programs of docs/guide.md.
package guide_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var quoted = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

// Every snippet of the guide is a whole function of this package or lines from
// one of its examples, and each example runs.
func TestGuideQuotesExamples(t *testing.T) {
	page := read(t, "../../docs/guide.md")
	source := read(t, "upload_linux_test.go") + read(t, "agent_linux_test.go") + read(t, "host_linux_test.go")
	shown := 0
	for _, m := range quoted.FindAllStringSubmatch(page, -1) {
		if strings.Contains(source, "\n"+m[1]) || strings.Contains(source, "\n"+indented(m[1])) {
			shown++
			continue
		}
		t.Errorf("no program has this snippet of the guide:\n%s", m[1])
	}
	for _, body := range strings.Split(source, "\nfunc Example")[1:] {
		name, body, _ := strings.Cut(body, "(")
		body, _, _ = strings.Cut(body, "\n}\n")
		if !strings.Contains(body, "// Output:") {
			t.Errorf("Example%s is not run", name)
		}
	}
	if shown < 9 {
		t.Errorf("the guide has %d snippets", shown)
	}
}

// indented is the snippet as it stands in the body of a function.
func indented(snippet string) string {
	lines := strings.SplitAfter(snippet, "\n")
	for i, line := range lines {
		if strings.TrimSpace(line) != "" {
			lines[i] = "\t" + line
		}
	}
	return strings.Join(lines, "")
}

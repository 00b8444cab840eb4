package pathsafe_test

import (
	"errors"
	"fmt"

	"github.com/caproot/caproot/pathsafe"
)

func ExampleParse() {
	for _, name := range []string{"docs/guide.md", "docs/", "docs/aux.txt", "../etc", `C:\boot`} {
		shape, err := pathsafe.Parse(name, pathsafe.Portable)
		var e *pathsafe.Error
		if errors.As(err, &e) {
			fmt.Printf("%s: refused, %s\n", pathsafe.Quote(name), e.Rule)
			continue
		}
		fmt.Printf("%s: %q in %q, must be a directory: %v, climbs: %v\n",
			pathsafe.Quote(name), shape.Leaf, shape.Parent, shape.MustDir, shape.DotDot)
	}
	// Output:
	// "docs/guide.md": "guide.md" in "docs", must be a directory: false, climbs: false
	// "docs/": "docs" in "", must be a directory: true, climbs: false
	// "docs/aux.txt": refused, device-name
	// "../etc": "etc" in "..", must be a directory: false, climbs: true
	// "C:\\boot": refused, drive
}

func ExampleSanitize() {
	fmt.Println(pathsafe.Sanitize("Q3: sales / costs?.xlsx", pathsafe.SanitizeOptions{}))
	fmt.Println(pathsafe.Sanitize("C<O>N", pathsafe.SanitizeOptions{Replacement: -1}))
	fmt.Println(pathsafe.Sanitize("report", pathsafe.SanitizeOptions{Prefix: "draft-", MaxBytes: 10}))
	// Output:
	// Q3_ sales _ costs_.xlsx
	// CO_
	// draft-repo
}

func ExampleMatches() {
	for _, name := range []string{".git", ".GIT ", ".g\u200cit", "GIT~1", ".git::$INDEX_ALLOCATION", ".gitignore"} {
		rule, ok := pathsafe.Matches(".git", name)
		fmt.Println(pathsafe.Quote(name), ok, rule)
	}
	// Output:
	// ".git" true same-name
	// ".GIT " true trailing-space
	// ".g\u200cit" true ignorable
	// "GIT~1" true short-name
	// ".git::$INDEX_ALLOCATION" true stream
	// ".gitignore" false
}

func ExampleExplain() {
	for _, f := range pathsafe.Explain("logs/aux. ", pathsafe.Portable) {
		fmt.Printf("%q: %s: %s\n", f.Component, f.Rule, f.Rule.Reason())
	}
	// Output:
	// "aux. ": device-name: Windows opens a device for it
	// "aux. ": trailing-space: Windows, or a program that trims text, drops the space at its end
}

func ExampleSet() {
	var batch pathsafe.Set
	for _, name := range []string{"README", "src/main.go", "readme"} {
		if err := batch.Add(name, false); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// name "readme" refused beside "README": a file system that folds case or normalises keeps it under an earlier name of the batch (collision)
}

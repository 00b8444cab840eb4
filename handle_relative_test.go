package caproot

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// byPath are calls of Windows that take a path, which another process can give
// to something else between two of them.
var byPath = regexp.MustCompile(`^(windows|syscall)\.(CreateFile|Create(Directory|HardLink|SymbolicLink)|CopyFile|DeleteFile|Find(First|Next)File.*|` +
	`[GS]etFileAttributes.*|[GS]etNamedSecurityInfo|MoveFile.*|RemoveDirectory|Open|Mkdir|Rmdir|Unlink|Rename|Chmod|Utimes.*)$` +
	`|^os\.(Chmod|Chown|Chtimes|Create|Lchown|Link|Lstat|Mkdir.*|Open.*|Read(Dir|File|link)|Remove.*|Rename|Stat|Symlink|Truncate|WriteFile)$`)

// case 184: what is done on Windows is done by a handle. Only the root itself is
// opened by its path.
func TestWindowsGoesByHandles(t *testing.T) {
	files, err := filepath.Glob("*_windows.go")
	must(t, err)
	if len(files) == 0 {
		t.Skip("not in the source tree")
	}
	var found []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		must(t, err)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if call, ok := n.(*ast.SelectorExpr); ok {
					if pkg, ok := call.X.(*ast.Ident); ok && byPath.MatchString(pkg.Name+"."+call.Sel.Name) {
						found = append(found, f.Name.Name+": "+pkg.Name+"."+call.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if !slices.Equal(found, []string{"openPath: windows.CreateFile"}) {
		t.Errorf("calls by path: %q", found)
	}
}

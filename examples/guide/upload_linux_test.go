package guide_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"

	"github.com/caproot/caproot"
)

// upload stores request bodies under the names that clients choose.
func upload(files *caproot.Root) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		receipt, err := files.PutFrom(req.Context(), req.PathValue("name"), req.Body, caproot.PutOptions{
			Parents:   true,    // directories in the name are made
			NoReplace: true,    // the kernel decides: of two uploads of one name, one succeeds
			MaxBytes:  1 << 20, // more is ErrTooLarge, and nothing is published
			Digest:    true,
		})
		switch {
		case err == nil:
			fmt.Fprintln(w, receipt.Path, receipt.Size, receipt.SHA256[:8])
		case errors.Is(err, fs.ErrExist):
			http.Error(w, "there is a file of this name", http.StatusConflict)
		case errors.Is(err, caproot.ErrTooLarge):
			http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		case errors.Is(err, caproot.ErrName), errors.Is(err, caproot.ErrEscape), errors.Is(err, caproot.ErrSymlink):
			http.Error(w, "not a name", http.StatusBadRequest)
		default:
			http.Error(w, caproot.Code(err), http.StatusInternalServerError)
		}
	}
}

func Example_upload() {
	dir, err := os.MkdirTemp("", "guide")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)

	p := caproot.Extract() // for names from strangers: no links, names that every system can hold
	p.MaxWriteBytes = 1 << 20
	files, err := caproot.Open(dir, p)
	if err != nil {
		panic(err)
	}
	defer files.Close()
	mux := http.NewServeMux()
	mux.Handle("PUT /files/{name...}", upload(files))

	for _, name := range []string{"2026/report.txt", "2026/report.txt", "..%2Fpasswd", "CON"} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("PUT", "/files/"+name, strings.NewReader("hello")))
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 2026/report.txt 5 2cf24dba
	// 409 there is a file of this name
	// 400 not a name
	// 400 not a name
}

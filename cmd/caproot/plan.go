package main

import (
	"bufio"
	"encoding/binary"
	"io"
	"io/fs"
	"os"
)

// planned is a file or directory to make.
type planned struct {
	name string // below the source
	mode fs.FileMode
	size int64
}

// plan lists what an import makes, parents before what is in them. It is kept
// in a file, so that memory stays flat whatever the source holds.
type plan struct {
	file  *os.File
	named bool
	out   *bufio.Writer
	one   []byte // a record before it is written
	files int
	bytes int64
}

func newPlan() (*plan, error) {
	f, err := os.CreateTemp("", "caproot-import-")
	if err != nil {
		return nil, err
	}
	// Without a name it goes with the process. Windows keeps names of open files.
	named := os.Remove(f.Name()) != nil
	return &plan{file: f, named: named, out: bufio.NewWriter(f)}, nil
}

func (p *plan) close() {
	p.file.Close()
	if p.named {
		os.Remove(p.file.Name())
	}
}

func (p *plan) add(e planned) error {
	p.one = binary.AppendUvarint(p.one[:0], uint64(len(e.name)))
	p.one = append(p.one, e.name...)
	p.one = binary.AppendUvarint(p.one, uint64(e.mode))
	p.one = binary.AppendVarint(p.one, e.size)
	if !e.mode.IsDir() {
		p.files++
		p.bytes += e.size
	}
	_, err := p.out.Write(p.one)
	return err
}

// planReader reads a plan from its start, also while it grows.
type planReader struct {
	p  *plan
	in *bufio.Reader
}

func (p *plan) reader() *planReader {
	return &planReader{p, bufio.NewReader(&growing{file: p.file})}
}

// growing reads a file whose end moves. It tells of the end only when there is
// nothing else to tell, because bufio.Reader would tell it again later.
type growing struct {
	file   *os.File
	offset int64
}

func (g *growing) Read(b []byte) (int, error) {
	n, err := g.file.ReadAt(b, g.offset)
	g.offset += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// next returns io.EOF after the last record there is so far.
func (r *planReader) next() (e planned, err error) {
	// Records are whole in the file whenever it is read.
	if err := r.p.out.Flush(); err != nil {
		return e, err
	}
	length, err := binary.ReadUvarint(r.in)
	if err != nil {
		return e, err
	}
	if e, err = r.rest(int(length)); err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return e, err
}

func (r *planReader) rest(length int) (e planned, err error) {
	name := make([]byte, length)
	if _, err := io.ReadFull(r.in, name); err != nil {
		return e, err
	}
	mode, err := binary.ReadUvarint(r.in)
	if err != nil {
		return e, err
	}
	size, err := binary.ReadVarint(r.in)
	return planned{string(name), fs.FileMode(mode), size}, err
}

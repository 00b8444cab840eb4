package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// redraw is how often a progress line is written: often enough to see it live,
// too seldom to slow the copy.
const redraw = 200 * time.Millisecond

// progress counts entries that are found, then bytes that are copied, and draws
// them on a terminal. count and aside may be used by several goroutines.
type progress struct {
	mu    sync.Mutex
	to    io.Writer
	on    bool
	start time.Time
	drawn bool // something stands on the line
	next  time.Time
	found int
	files int // to copy; 0 until all are found
	done  int64
	total int64
}

// isTerminal takes every character device for a terminal. The others, as
// /dev/null, do not mind.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// count returns a reader that adds what it reads to the progress.
func (p *progress) count(r io.Reader) *counter { return &counter{Reader: r, p: p} }

type counter struct {
	io.Reader
	p    *progress
	done int64 // of this reader
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.done += int64(n)
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.done += int64(n)
	c.p.draw()
	return n, err
}

// aside lets write put a message where the progress stands.
func (p *progress) aside(write func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	write()
}

func (p *progress) draw() {
	now := time.Now()
	if !p.on || now.Before(p.next) {
		return
	}
	p.next, p.drawn = now.Add(redraw), true
	text := fmt.Sprintf("%d found", p.found)
	if p.files > 0 {
		text = fmt.Sprintf("%s of %s in %d files, %s/s, %s left", bytesText(p.done), bytesText(p.total), p.files, bytesText(p.rate()), p.left())
	}
	fmt.Fprint(p.to, "\r\x1b[K"+text)
}

// clear takes the line away, so that a message can stand there.
func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.to, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *progress) elapsed() time.Duration { return time.Since(p.start) }

// rate is in bytes per second since the start.
func (p *progress) rate() int64 { return rate(p.done, p.elapsed()) }

func rate(bytes int64, in time.Duration) int64 {
	if in <= 0 {
		return 0
	}
	return int64(float64(bytes) / in.Seconds())
}

func (p *progress) left() time.Duration {
	rate := p.rate()
	if rate == 0 || p.done >= p.total {
		return 0
	}
	return time.Duration(float64(p.total-p.done) / float64(rate) * float64(time.Second)).Round(time.Second)
}

func bytesText(n int64) string {
	const step = 1024
	if n < step {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/step, 0
	for value >= step && unit < len("KMGTPE")-1 {
		value, unit = value/step, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTPE"[unit])
}

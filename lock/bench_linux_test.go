package lock

import (
	"context"
	"os"
	"testing"
)

// BenchmarkUncontended is one acquisition and release, and beside it the
// sidecar that needs no package: exclusive creation, write, close, unlink.
func BenchmarkUncontended(b *testing.B) {
	b.Run("plain-excl", func(b *testing.B) {
		path := b.TempDir() + "/target.lock"
		content := []byte(`{"pid":1}`)
		for b.Loop() {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			must(b, err)
			_, err = f.Write(content)
			must(b, err)
			must(b, f.Close())
			must(b, os.Remove(path))
		}
	})
	for name, o := range map[string]Options{"removed": {}, "kept": {KeepRecord: true}} {
		b.Run(name, func(b *testing.B) {
			m, r, ctx := NewManager(b.Name()), openRoot(b, b.TempDir()), context.Background()
			b.ReportAllocs()
			for b.Loop() {
				l, err := m.Acquire(ctx, r, "target", o)
				must(b, err)
				must(b, l.Release())
			}
			must(b, m.Drain(ctx))
		})
	}
}

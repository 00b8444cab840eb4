package caproot

import (
	"context"
	"strconv"
)

// optionRange is an option with the least and greatest value that it may have.
type optionRange struct {
	name               string
	value, least, most int64
}

// atMost is the range of a rule, whose constants end with most.
func atMost[T ~uint8](name string, value, most T) optionRange {
	return optionRange{name, int64(value), 0, int64(most)}
}

// limit is the range of a count or size.
func limit[T ~int | ~int64](name string, value T) optionRange {
	return optionRange{name, int64(value), 0, NoLimit}
}

// inRange returns ErrOption for the first option that is out of its range. None is
// taken for the next best: a limit below zero would limit nothing, a rule that is
// none would be whatever the code happens to ask for last.
func inRange(options ...optionRange) error {
	for i := range options {
		o := &options[i]
		if o.value < o.least || o.value > o.most {
			return because(ErrOption, o.name+" "+strconv.FormatInt(o.value, 10))
		}
	}
	return nil
}

// admitContext is for verbs that also take a context.
func admitContext(ctx context.Context, options error) error {
	if ctx == nil {
		return errNoContext
	}
	return options
}

// admitRunning refuses a context that has ended too, before anything is made.
func admitRunning(ctx context.Context, options error) error {
	if err := admitContext(ctx, options); err != nil {
		return err
	}
	return endOf(ctx)
}

func (o *PutOptions) valid() error {
	return inRange(atMost("Durability", o.Durability, DurabilityVolatile), limit("MaxBytes", o.MaxBytes))
}

func (o *AppendOptions) valid() error {
	return inRange(atMost("Durability", o.Durability, DurabilityVolatile))
}

func (o *MoveOptions) valid() error {
	return inRange(atMost("Durability", o.Durability, DurabilityVolatile))
}

func (o *BatchOptions) valid() error {
	return inRange(atMost("Barrier", o.Barrier, BarrierFileSystem))
}

func (o *CopyOptions) valid() error {
	if err := o.PutOptions.valid(); err != nil {
		return err
	}
	return inRange(atMost("Clone", o.Clone, CloneRequire))
}

func (o *TreeCopyOptions) valid() error {
	if err := o.File.valid(); err != nil {
		return err
	}
	return inRange(
		atMost("Symlinks", o.Symlinks, LinksKeep), atMost("Hardlinks", o.Hardlinks, LinksKeep),
		limit("MaxEntries", o.MaxEntries), limit("MaxDepth", o.MaxDepth), limit("MaxBytes", o.MaxBytes), limit("Workers", o.Workers))
}

func (o *WalkOptions) valid() error {
	return inRange(limit("MaxEntries", o.MaxEntries), limit("MaxDepth", o.MaxDepth),
		atMost("Mounts", o.Mounts, MountsCross), limit("Workers", o.Workers))
}

func (o *TreeLimits) valid() error {
	return inRange(limit("MaxEntries", o.MaxEntries), limit("MaxDepth", o.MaxDepth),
		atMost("Mounts", o.Mounts, MountsCross), limit("Workers", o.Workers))
}

func (w Evidence) valid() error {
	return inRange(atMost("Evidence", w, WithDigest|WithAncestry))
}

func (g *Grant) valid() error {
	if err := g.Policy.valid(); err != nil || g.Budget == nil {
		return err
	}
	b := g.Budget
	return inRange(limit("Budget.Bytes", b.Bytes), limit("Budget.Files", b.Files))
}

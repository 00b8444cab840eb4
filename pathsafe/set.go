package pathsafe

// Set notes the names of a batch, such as the entries of an archive, and
// refuses one that would be the object of another on some file system. Its zero
// value is empty and ready. It keeps the names it is given. It is not safe for
// concurrent use.
//
// It compares by KeyPath only: have Portable accept the names first, which
// refuses what Windows drops at the end of a component.
type Set struct {
	seen map[string]member // by KeyPath
}

type member struct {
	path string // canonical
	dir  bool
}

// Add notes a slash-separated name and the directories it goes through. Say dir
// for a directory; a spelling that only a directory meets is one anyway. A
// directory may be added again, the start directory always.
//
// It returns an *Error, and notes nothing, when the name or a directory of it
// is spelled otherwise in an earlier name (Collision), is a directory in one
// name and not in the other (FileAsDirectory), or is there already (Duplicate);
// when it has a component "..", whose meaning no text can tell (Dots); and when
// the POSIX profile refuses it.
func (s *Set) Add(name string, dir bool) error {
	shape, err := Parse(name, POSIX)
	switch {
	case err != nil:
		return err
	case shape.DotDot:
		return &Error{Rule: Dots, Name: name, Component: ".."}
	case shape.Leaf == "":
		return nil
	}
	path := join(name, POSIX, func(c string) string { return c })
	steps := stepsTo(path, dir || shape.MustDir)
	for _, st := range steps {
		old, ok := s.seen[st.key]
		if rule := clash(old, st.member); ok && rule != "" {
			return &Error{Rule: rule, Name: name, Component: st.path, Other: old.path}
		}
	}
	if s.seen == nil {
		s.seen = make(map[string]member)
	}
	for _, st := range steps {
		s.seen[st.key] = st.member
	}
	return nil
}

func clash(old, new member) Rule {
	switch {
	case old.path != new.path:
		return Collision
	case old.dir != new.dir:
		return FileAsDirectory
	case !new.dir:
		return Duplicate
	}
	return ""
}

type step struct {
	key string
	member
}

// stepsTo lists path and the directories above it, from the top.
func stepsTo(path string, dir bool) (steps []step) {
	key := KeyPath(path)
	i, j := 0, 0
	for j < len(path) {
		i = posixTable.endOf(key, i)
		j = posixTable.endOf(path, j)
		steps = append(steps, step{key[:i], member{path[:j], dir || j < len(path)}})
		i, j = i+1, j+1
	}
	return steps
}

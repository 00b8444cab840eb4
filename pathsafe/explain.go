package pathsafe

// Finding is one rule that a spelling breaks.
type Finding struct {
	Rule      Rule
	Component string // "" when the rule is of the whole name
	Offset    int    // of Component in the name, in bytes
}

// Explain lists every rule that a spelling breaks, in the order of the name.
// The first is the one Parse reports; there is none when Parse accepts.
func Explain(name string, p Profile) []Finding {
	t := p.table()
	var found []Finding
	if r := t.whole(name); r != "" {
		found = append(found, Finding{Rule: r})
	}
	for start := 0; start <= len(name); {
		end := t.endOf(name, start)
		switch part := name[start:end]; part {
		case "", ".", "..":
		default:
			for _, r := range t.broken(part) {
				found = append(found, Finding{r, part, start})
			}
		}
		start = end + 1
	}
	return found
}

// broken returns all rules that part breaks, the one of component first.
func (t *table) broken(part string) (all []Rule) {
	if t.length(part, t.maxComponent) > t.maxComponent {
		all = append(all, TooLongComponent)
	}
	has := classesOf(part)
	for _, r := range t.rules {
		if r.applies(has) && r.breaks(part) {
			all = append(all, r.code)
		}
	}
	return all
}

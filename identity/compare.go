package identity

// Verdict is the answer to "is this the object it was". Its zero value is Unknown.
type Verdict uint8

// The verdicts.
const (
	// Unknown: the evidence allows both answers. It is never permission.
	Unknown Verdict = iota
	// Same: proved to be one object.
	Same
	// Different: proved to be two, or in [Receipt.Compare] to have changed.
	Different
)

// Reason says what decided a Verdict. The texts are stable.
type Reason string

// Reasons of Different.
const (
	ByDevice     Reason = "device"
	ByFileNumber Reason = "file-number"
	ByHandle     Reason = "handle"
	ByGeneration Reason = "generation"
	ByBirth      Reason = "birth-time"
	ByType       Reason = "type"
	BySize       Reason = "size"
	ByDigest     Reason = "digest"
)

// Reasons of Same.
const (
	ProofHandle     Reason = "proof-handle"
	ProofGeneration Reason = "proof-generation"
)

// Reasons of Unknown.
const (
	// NoIdentity: at least one side has no device or no file number.
	NoIdentity Reason = "no-identity"
	// ReusableNumber: nothing differs, and nothing outlives the reuse of a number.
	ReusableNumber Reason = "reusable-number"
	// OtherMount: nothing differs, but the two were seen through different mounts.
	OtherMount Reason = "mount"
)

// Compare decides whether two IDs are of one object. It is symmetric.
//
// An ID that is not Known decides nothing. Otherwise a difference in any
// evidence that both sides have is Different: device, file number, handle,
// generation, birth time, type. Same needs proof that outlives the reuse of
// file numbers: equal handles or equal non-zero generations, and through two
// mounts, where a layered or remote file system may show two objects under one
// number, equal handles and equal birth times. Everything else is Unknown.
//
// What one side lacks is unknown, never zero. A handle in one of the kernel's
// generic layouts with generation 0 counts as lacking.
func Compare(a, b ID) (Verdict, Reason) {
	if !a.Known() || !b.Known() {
		return Unknown, NoIdentity
	}
	a.Handle, b.Handle = lasting(a.Handle), lasting(b.Handle)
	if why := difference(a, b); why != "" {
		return Different, why
	}
	// What both sides have is equal from here on.
	handle := a.Handle != "" && b.Handle != ""
	birth := a.HasBirth && b.HasBirth
	generation := a.HasGen && b.HasGen && a.Gen != 0
	switch {
	case a.Mount != 0 && b.Mount != 0 && a.Mount != b.Mount:
		if handle && birth {
			return Same, ProofHandle
		}
		return Unknown, OtherMount
	case handle:
		return Same, ProofHandle
	case generation:
		return Same, ProofGeneration
	}
	return Unknown, ReusableNumber
}

// difference names the first evidence that both sides have and that differs.
func difference(a, b ID) Reason {
	switch {
	case a.Dev != b.Dev:
		return ByDevice
	case a.Ino != b.Ino || a.InoHigh != b.InoHigh:
		return ByFileNumber
	case a.Handle != "" && b.Handle != "" && a.Handle != b.Handle:
		return ByHandle
	case a.HasGen && b.HasGen && a.Gen != b.Gen:
		return ByGeneration
	case a.HasBirth && b.HasBirth && a.Birth != b.Birth:
		return ByBirth
	case kindOf(a.Type) != kindOf(b.Type):
		return ByType
	}
	return ""
}

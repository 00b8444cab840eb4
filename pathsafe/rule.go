package pathsafe

import (
	"io/fs"
	"unicode/utf8"
)

// Rule is the stable code of a rule about names.
type Rule string

// The rules that Parse, Component and Target apply.
const (
	Empty            Rule = "empty"
	Absolute         Rule = "absolute"
	UNC              Rule = "unc"
	DevicePath       Rule = "device-path"
	TooLong          Rule = "too-long"
	TooLongComponent Rule = "too-long-component"
	Dots             Rule = "dots"
	NUL              Rule = "nul"
	UTF8             Rule = "utf8"
	Separator        Rule = "separator"
	Disguised        Rule = "disguised-dotdot"
	DeviceName       Rule = "device-name"
	Drive            Rule = "drive"
	Stream           Rule = "stream"
	Control          Rule = "control"
	Bidi             Rule = "bidi"
	Wildcard         Rule = "wildcard"
	TrailingDot      Rule = "trailing-dot"
	TrailingSpace    Rule = "trailing-space"
	NamedFork        Rule = "named-fork"
)

// The rules that Set applies between the names of a batch.
const (
	Duplicate       Rule = "duplicate"
	Collision       Rule = "collision"
	FileAsDirectory Rule = "file-as-directory"
)

// The rules by which Matches finds one name in another, beside TrailingDot,
// TrailingSpace and Stream.
const (
	SameName      Rule = "same-name"
	Normalization Rule = "normalization"
	Ignorable     Rule = "ignorable"
	CaseFold      Rule = "case-fold"
	ShortName     Rule = "short-name"
)

var reasons = map[Rule]string{
	Empty:            "it is empty",
	Absolute:         "it starts at the root of the file system",
	UNC:              "it starts at a server",
	DevicePath:       "it starts in the device namespace of Windows",
	TooLong:          "it is too long",
	TooLongComponent: "a component is too long",
	Dots:             `"." and ".." are no names of their own`,
	NUL:              "it contains a NUL, which ends a name in the kernel",
	UTF8:             "it is not valid UTF-8",
	Separator:        "it contains a separator where a single name is wanted",
	Disguised:        "some system reads it as the directory itself or its parent",
	DeviceName:       "Windows opens a device for it",
	Drive:            "Windows reads it as a place on a drive",
	Stream:           "Windows opens a stream or an index by it",
	Control:          "it contains a control character or a line break",
	Bidi:             "it contains a character that reorders the text around it",
	Wildcard:         `it contains one of < > " | ? *, which Windows reserves`,
	TrailingDot:      "Windows drops the dot at its end",
	TrailingSpace:    "Windows, or a program that trims text, drops the space at its end",
	NamedFork:        "macOS opens a fork of a file by it",
	Duplicate:        "the batch names it twice",
	Collision:        "a file system that folds case or normalises keeps it under an earlier name of the batch",
	FileAsDirectory:  "the batch has a file where this needs a directory, or the reverse",
	SameName:         "it is the very name",
	Normalization:    "it is the same text in another Unicode normalisation form",
	Ignorable:        "it is the same but for characters that HFS+ and casefolding ext4 ignore",
	CaseFold:         "it is the same but for case",
	ShortName:        "it can be the 8.3 name that Windows gives it",
}

// Reason says in a few words what the rule is about; "" for an unknown rule.
func (r Rule) Reason() string { return reasons[r] }

// Error says which rule refused which name.
type Error struct {
	Rule      Rule
	Name      string // as given
	Component string // the offending part; "" when the rule is of the whole name
	Other     string // the earlier name that Set found in the way
}

// Error quotes names and cuts long ones, so that the text can go to a terminal
// or a log.
func (e *Error) Error() string {
	text := "name " + brief(e.Name) + " refused"
	if e.Component != "" && e.Component != e.Name {
		text += " at " + brief(e.Component)
	}
	if e.Other != "" {
		text += " beside " + brief(e.Other)
	}
	return text + ": " + e.Rule.Reason() + " (" + string(e.Rule) + ")"
}

// Is makes every refusal match fs.ErrInvalid.
func (e *Error) Is(target error) bool { return target == fs.ErrInvalid }

// brief is Quote for the start of a long name.
func brief(name string) string {
	const most = 300 // bytes: any component of a usual file system, whole
	if len(name) <= most {
		return Quote(name)
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(name[end]) {
		end--
	}
	return Quote(name[:end]) + "…"
}

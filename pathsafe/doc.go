// Package pathsafe judges the spelling of file names. It looks at strings only:
// it never asks a file system, so each verdict is the same on every system and
// comes from the tables of this package.
//
// Parse takes a spelling from an untrusted source apart. Component judges one
// new name, Sanitize makes one that is acceptable, Explain lists everything
// that is wrong with a spelling. Key and Set find names that are one object on
// a file system that folds case or normalises. Matches tells whether a name
// reaches a protected name by some other spelling. Quote shows a name.
//
// What the package does not promise: a name that every table accepts can still
// be refused by a file system (eCryptfs holds 143 bytes, APFS refuses code
// points it does not know), and two names with different keys can still be one
// object on a file system with rules of its own, such as Samba's hashed short
// names. Names that merely look alike are not compared. Spellings are never
// trimmed, expanded ("~" is an ordinary name) or repaired on the way in.
package pathsafe

package caproot

import (
	"crypto/rand"
	"strconv"
	"strings"
)

// stagePrefix begins the name of every stage. Then come 26 random characters
// that do not derive from the target, whose name may already be as long as a name
// can be.
const stagePrefix = ".caproot-stage-"

// markedPrefix begins the name of a stage that is exchanged for PutOptions.IfMatch.
// Between the prefix and the random part stand two marks: the number of the new
// file, and the seal of the object that the exchange is to displace. By them a sweep
// knows both from the file of another writer, perhaps the only copy, that an
// exchange displaced in their stead.
const markedPrefix = stagePrefix + "of-"

const (
	randomLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567" // of rand.Text
	randomLength  = 26                                 // of rand.Text, 130 bits
	noSeal        = "none"
)

func newStageName() string { return stagePrefix + rand.Text() }

// marks is the beginning of the name of a stage that is exchanged.
func marks(own *status, seal string) string {
	return markedPrefix + strconv.FormatUint(own.ino, 10) + "-" + seal + "-"
}

// sealOf tells a file from another one, and from itself with other content.
func sealOf(st *status) string {
	words := [4]uint64{st.ino, uint64(st.size), uint64(st.mtime.sec), uint64(st.mtime.nsec)}
	text := ""
	for i, w := range words {
		if i > 0 {
			text += "."
		}
		text += strconv.FormatUint(w, 10)
	}
	return text
}

// isStageName reports whether the name has exactly the form of a stage's.
func isStageName(name string) bool {
	rest, ok := strings.CutPrefix(name, stagePrefix)
	if !ok {
		return false
	}
	if mark, ok := strings.CutPrefix(rest, "of-"); ok {
		words := strings.Split(mark, "-")
		if len(words) != 3 || !isNumber(words[0]) || words[1] != noSeal && !isSeal(words[1]) {
			return false
		}
		rest = words[2]
	}
	return len(rest) == randomLength && strings.Trim(rest, randomLetters) == ""
}

func isSeal(text string) bool {
	words := strings.Split(text, ".")
	for _, w := range words {
		if !isNumber(w) {
			return false
		}
	}
	return len(words) == 4
}

func isNumber(text string) bool {
	n, err := strconv.ParseUint(text, 10, 64)
	return err == nil && strconv.FormatUint(n, 10) == text
}

// isStage reports whether the object under a stage's name is the stage, or what
// its exchange was to displace.
func isStage(name string, st *status) bool {
	mark, marked := strings.CutPrefix(name, markedPrefix)
	if !marked {
		return true
	}
	words := strings.Split(mark, "-")
	return words[0] == strconv.FormatUint(st.ino, 10) || words[1] == sealOf(st)
}

// unreserved refuses a name that a sweep would take for a stage's.
func unreserved(name string) error {
	if isStageName(name) {
		return because(ErrName, "names of this form are kept for stages")
	}
	return nil
}

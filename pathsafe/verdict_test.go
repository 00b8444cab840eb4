package pathsafe

import "strings"

// verdict is what each table says about one spelling: the rule that refuses
// it, or "" where it is accepted.
type verdict struct {
	id                               string // of the case
	name                             string
	portable, windows, darwin, posix Rule
}

func (v verdict) of(p Profile) Rule {
	return map[Profile]Rule{Portable: v.portable, Windows: v.windows, Darwin: v.darwin, POSIX: v.posix}[p]
}

var tables = []Profile{Portable, POSIX, Windows, Darwin}

// winOnly is a spelling that means something else on Windows and nothing
// elsewhere.
func winOnly(id string, rule Rule, names ...string) (all []verdict) {
	for _, n := range names {
		all = append(all, verdict{id: id, name: n, portable: rule, windows: rule})
	}
	return all
}

// everywhere has one verdict of all tables.
func everywhere(id string, rule Rule, names ...string) (all []verdict) {
	for _, n := range names {
		all = append(all, verdict{id, n, rule, rule, rule, rule})
	}
	return all
}

func verdicts() []verdict {
	var all []verdict
	for _, group := range [][]verdict{
		deviceVerdicts(), dotVerdicts(), placeVerdicts(), characterVerdicts(), lengthVerdicts(), plainVerdicts(),
	} {
		all = append(all, group...)
	}
	return all
}

func deviceVerdicts() []verdict {
	all := winOnly("50", DeviceName,
		"COM¹", "LPT³", "com².txt", "lpt³.log", "COM¹ .x", "dir/COM³/x", "LPT¹.tar.gz")
	all = append(all, winOnly("51", DeviceName,
		"CON", "nul", "aux.", "con ", "NUL.txt", "CONIN$", "conout$", "PRN:", "COM0", "LPT0", "CLOCK$", "com9", "lpt1.x",
		"a/Con/b", "nul .txt", "Aux  ", "CONIN$.x", "con:stream", "prn.a.b")...)
	return append(all, everywhere("51", "",
		"CONSOLE", "COM", "COM10", "COM¹²", "LPT", "xCON", "a.con", "nulls.txt", ".con", "con_", "aux-1", "CLOCK", "COMX")...)
}

func dotVerdicts() []verdict {
	all := winOnly("54", Disguised,
		".. ", "...", "..::$INDEX_ALLOCATION", ". .", ". ", ".. .", "....", " ", "a/.../b", "..:", ":stream", "a/ /b", ".. /x")
	for _, n := range []string{"..\u00a0", "\u200b", "..\u200d", "\u3000", ".\u200c"} {
		all = append(all, verdict{id: "54", name: n, portable: Disguised})
	}
	for _, n := range []string{".\u200c.", "\ufeff..", "a/.\u2060./b"} {
		all = append(all, verdict{id: "54", name: n, portable: Disguised, windows: TrailingDot})
	}
	all = append(all, winOnly("57", TrailingDot, "trail.", "trail./x", "x/trail./y", "a..", "a .")...)
	all = append(all, winOnly("57", TrailingSpace, "trail ", "trail /x", "x/trail ", "a. ")...)
	all = append(all, verdict{id: "57", name: "trail\u00a0", portable: TrailingSpace},
		verdict{id: "57", name: "trail\u3000/x", portable: TrailingSpace})
	return append(all, everywhere("54", "", "..a", "a..b", ".a.b", "a/../b", "..", "../..", " a", "... a", "..x/y", "a/..b")...)
}

func placeVerdicts() []verdict {
	all := winOnly("58", Drive, "C:x", "C:..", "C:", "ä:x", "C:/x", `D:..\E:..\x`, `C:\x`, "c:con")
	all = append(all,
		verdict{id: "58", name: `x\D:..`, portable: Separator, windows: Stream},
		verdict{id: "58", name: `a\b`, portable: Separator},
		verdict{id: "58", name: `a\..\b`, portable: Separator},
		verdict{id: "58", name: `..\x`, portable: Separator})
	all = append(all, winOnly("58", DevicePath, `\\?\C:\x`, `\\.\pipe\x`, `\??\C:\x`, `\/?\x`)...)
	all = append(all, winOnly("58", UNC, `\\srv\share`, `\/srv`)...)
	all = append(all, winOnly("58", Absolute, `\x`, `\`)...)
	for name, rule := range map[string]Rule{
		"//srv/share": UNC, "/??/C:/x": DevicePath, "//?/C:/x": DevicePath, "//./pipe/x": DevicePath,
	} {
		all = append(all, verdict{"58", name, rule, rule, Absolute, Absolute})
	}
	all = append(all, everywhere("58", Absolute, "/", "/x", "/.", "/../x")...)
	// A name with a colon that exists on a POSIX system stays usable there.
	all = append(all, winOnly("lesson 28", Stream, "file:stream", "dir::$INDEX_ALLOCATION", "a/b:c", "12:30", "a/D:b", "dir:")...)
	for _, n := range []string{"..namedfork", "file/..namedfork/rsrc", "..NamedFork", "..named\u200cfork"} {
		all = append(all, verdict{id: "55", name: n, portable: NamedFork, darwin: NamedFork})
	}
	return all
}

func characterVerdicts() []verdict {
	all := everywhere("60", NUL, "a\x00b", "\x00", "x/a\x00", "NUL\x00")
	all = append(all, winOnly("66", Control, "name\r", "a\nb", "\x1b[31mred", "tab\there", "x/a\rb/y")...)
	for _, n := range []string{"del\x7f", "c1\u0085x", "\u009b31m", "line\u2028x", "par\u2029x"} {
		all = append(all, verdict{id: "66", name: n, portable: Control})
	}
	for _, n := range []string{"txt\u202egpj.exe", "\u2066a", "a\u200eb", "a\u061cb", "x/\u202aa/y"} {
		all = append(all, verdict{id: "66", name: n, portable: Bidi})
	}
	for _, n := range []string{"a\xff", "\xc0\xaf", "\xed\xa0\x80", "\xe2\x82", "x/\x80/y", "\xc0\xae\xc0\xae"} {
		all = append(all, verdict{"67", n, UTF8, UTF8, UTF8, ""})
	}
	return append(all, winOnly("52", Wildcard, "C<O>N", "a?", "*", `"q"`, "a|b", "x/<")...)
}

func lengthVerdicts() []verdict {
	wide := strings.Repeat("ä", 128) // 256 bytes, 128 UTF-16 units
	astral := strings.Repeat("😀", 128)
	deep := strings.Repeat(strings.Repeat("d", 250)+"/", 17) + "x" // 4,268 bytes
	return []verdict{
		{"52", strings.Repeat("a", 255), "", "", "", ""},
		{"52", strings.Repeat("a", 256), TooLongComponent, TooLongComponent, "", ""},
		{"52", strings.Repeat("a", 1022), TooLongComponent, TooLongComponent, "", ""},
		{"52", strings.Repeat("a", 1023), TooLongComponent, TooLongComponent, TooLongComponent, ""},
		{"52", wide, TooLongComponent, "", "", ""},
		{"52", astral, TooLongComponent, TooLongComponent, "", ""}, // 512 bytes, 256 UTF-16 units
		{"52", astral[4:], TooLongComponent, "", "", ""},
		{"52", strings.Repeat("ä", 511) + "a", TooLongComponent, TooLongComponent, TooLongComponent, ""},
		{"52", strings.Repeat("\uffff", 255), TooLongComponent, "", "", ""},
		{"24", deep, TooLong, "", "", ""},
		{"24", strings.Repeat("a/", 2047) + "a", "", "", "", ""},
		{"24", strings.Repeat("a/", 16384), TooLong, TooLong, "", ""},
		{"24", strings.Repeat("a/", 1<<19), TooLong, TooLong, "", ""},
		{"24", strings.Repeat("a/", 1<<19) + "a", TooLong, TooLong, TooLong, TooLong},
	}
}

func plainVerdicts() []verdict {
	all := everywhere("61", Empty, "")
	all = append(all, everywhere("61", "", "a//b", "./", ".", "./.", "a/", "a/.", "./a", "a/./b", "a///", ".//a")...)
	all = append(all, everywhere("31", "", "lk", "lk/", "lk/.", "./lk/", "lk//")...)
	all = append(all, everywhere("175", "", "a/..", "a/../.")...)
	all = append(all, everywhere("lesson 29", "", "~", "~/x", "~root", "$HOME", "%TEMP%", "GIT~1")...)
	all = append(all, everywhere("lesson 30", "", "two words", "a  b", "UPPER.Case", "naïve", "n\u0061\u0308", "日本語", "👩‍👩‍👧",
		"❤\ufe0f.txt", "-rf", "a,b;c=d[1]{2}(3)+@!#$%&'^`")...)
	return append(all, everywhere("55", "", ".git", ".GIT", ".g\u200cit", "\ufeff.git", ".gi\u200dt")...)
}

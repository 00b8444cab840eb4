package pathsafe

import "testing"

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		protected, component string
		want                 Rule // "" for no match
	}{
		{".git", ".git", SameName},
		{".git", ".GIT", CaseFold},
		{".git", ".g\u200cit", Ignorable},                   // case 55
		{".git", "\ufeff.gi\u200dt", Ignorable},             // case 55
		{".git", ".G\u200cIT", CaseFold},                    // case 55: both protections at once
		{".git", ".git.", TrailingDot},                      // case 57
		{".git", ".git ", TrailingSpace},                    // case 57
		{".git", ".GIT . .", TrailingDot},                   // all of Windows
		{".git", ".g\u200cit\u200d. \u200b", TrailingSpace}, // HFS+ and NTFS together
		{".git", ".git::$INDEX_ALLOCATION", Stream},         // lesson 28
		{".git", ".gi\u200ct .:x", Stream},                  // and all of it
		{".git", "GIT~1", ShortName},                        // CVE-2014-9390
		{".git", "git~1", ShortName},                        //
		{".git", "git~12. ", ShortName},                     //
		{".git", "g\u200cit~1::$DATA", ShortName},           //
		{".git", "GI7D29~1", ShortName},                     // after four collisions
		{".gitmodules", "GITMOD~4", ShortName},              //
		{".gitmodules", "GITMO~10", ShortName},              // the number takes room
		{".gitmodules", "GI7EBA~1", ShortName},              // hash form
		{"settings.local.json", "SETTIN~1.JSO", ShortName},  //
		{"settings.local.json", "settin~1.js~", ShortName},  // cut extension
		{"two words.txt", "TWOWOR~1.TXT", ShortName},        // spaces go
		{"a+b=c.conf", "A_B_C~1.CON", ShortName},            // characters FAT lacks
		{"a.longext", "A1F2C~1.LON", ShortName},             // short base: hash at once
		{"gehäuse", "GEH~1", ShortName},                     // outside ASCII: by the part before
		{"gehäuse", "GEHUSE~1", ShortName},                  //
		{"日本", "1A2B~1", ShortName},                         //
		{"x.jäson", "X12AB~1.JAS", ShortName},               //
		{"stra\u00dfe", "STRASSE", CaseFold},                //
		{"caf\u00e9", "cafe\u0301", Normalization},          //
		{"caf\u00e9", "cafe\u034f\u0301", Ignorable},        //
		{"a ", "a ", SameName},                              // lesson 27
		{"a:b", "A:B", CaseFold},                            //
		{"a ", "a", ""},                                     // lesson 27: the sibling stays free
		{".git", ".gitignore", ""},                          //
		{".git", "git", ""},                                 //
		{".git", "GIT~0", ""},                               //
		{".git", "GIT~", ""},                                //
		{".git", "~1", ""},                                  //
		{".git", "GIT~1.TXT", ""},                           //
		{".git", "GIX~1", ""},                               //
		{".gitmodules", "GITMODU~1", ""},                    // nine characters
		{".gitmodules", "GITMO~1", ""},                      // the number leaves room for six
		{".gitmodules", "GIZZZZ~1", ""},                     // no hash
		{"日本", "\xff~1", ""}, {"日本", "A:B~1", ""},
		{"日本", "~1", ""},
		{"日本", "ABCDEFGH~1", ""},
		{"x.html", "X~1.HTM", ShortName},
		{"a.b.c.longer", "ABC~1.LON", ShortName},
		{"two words.txt", "TWOWOR~1.TX~", ""},
		{"a\ufffdb", "a\xff\u200cb", ""},        // case 67
		{"config", "CONFIG~1", ""},              // its own 8.3 name
		{"config.txt", "CONFIG~1.TXT", ""},      //
		{"settings.local.json", "SETTIN~1", ""}, //
		{"", "", ""}, {"", "x", ""}, {"x", "", ""}, {".git", "", ""}, {".git", "..", ""},
	} {
		rule, ok := Matches(c.protected, c.component)
		if rule != c.want || ok != (c.want != "") {
			t.Errorf("Matches(%+q, %+q) = %q, %v; want %q", c.protected, c.component, rule, ok, c.want)
		}
	}
}

// A disguise on top of a disguise is one still.
func TestMatchesCombines(t *testing.T) {
	disguises := []func(string) string{
		func(s string) string { return s + "." },
		func(s string) string { return s + " " },
		func(s string) string { return s + ":x" },
		func(s string) string { return s[:1] + "\u200c" + s[1:] },
		func(s string) string { return s + "\ufeff" },
	}
	for _, start := range []string{".git", ".GIT", "git~1", "GI7EBA~1"} {
		for _, first := range disguises {
			for _, second := range disguises {
				for _, third := range disguises {
					name := third(second(first(start)))
					if _, ok := Matches(".git", name); !ok {
						t.Errorf("Matches(.git, %+q) is false", name)
					}
				}
			}
		}
	}
}

func TestEveryNameMatchesItself(t *testing.T) {
	for _, v := range verdicts() {
		if rule, ok := Matches(v.name, v.name); ok != (v.name != "") || ok && rule != SameName {
			t.Errorf("case %s: Matches(%s, itself) = %q, %v", v.id, brief(v.name), rule, ok)
		}
	}
}

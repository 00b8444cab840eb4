# Reads the output of go test -v: prints what each package says of itself with how
# many of its tests ran and were skipped, then how many were skipped in all, by
# the reason that the test gave. Fails if in a package, or where there is none
# named in all, less than "least" per cent of the tests ran, or if none did.
function executed(ran, not) { return ran + not ? 100 * ran / (ran + not) : 100 }
/^=== (RUN|NAME|CONT)/ { test = $3 }
/^ +[^ ]+\.go:[0-9]+: / {
  sub(/^ +[^ ]+\.go:[0-9]+: /, "")
  why[test] = $0
}
/^ *--- SKIP: / {
  skipped++; here_skipped++
  reason = why[$3] == "" ? "no reason given" : why[$3]
  count[reason]++
  example[reason] = $3
}
/^ *--- PASS: / { passed++; here_passed++ }
/^(ok|\?) / {
  printf "%s (%d passed, %d skipped)\n", $0, here_passed, here_skipped
  if (executed(here_passed, here_skipped) < least) few = few " " $2
  here_passed = here_skipped = 0
}
END {
  if (!passed) { print "no test ran"; exit 1 }
  printf "%d passed, %d skipped: %.1f%% executed\n", passed, skipped, executed(passed, skipped)
  for (reason in count) print "  " count[reason] " × " reason " (" example[reason] ")"
  if (executed(passed, skipped) < least) few = few " all"
  if (few != "") { print "less than " least "% executed:" few; exit 1 }
}

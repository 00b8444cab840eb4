# Reads the output of go test -v: prints what each package says of itself, then
# how many tests were skipped, by the reason that the test gave. Fails if less than
# "least" per cent of the tests ran.
/^=== (RUN|NAME|CONT)/ { test = $3 }
/^ +[^ ]+\.go:[0-9]+: / {
  sub(/^ +[^ ]+\.go:[0-9]+: /, "")
  why[test] = $0
}
/^ *--- SKIP: / {
  skipped++
  reason = why[$3] == "" ? "no reason given" : why[$3]
  count[reason]++
  example[reason] = $3
}
/^ *--- PASS: / { passed++ }
/^(ok|\?) / { print }
END {
  share = passed ? 100 * passed / (passed + skipped) : 0
  printf "%d passed, %d skipped: %.1f%% executed\n", passed, skipped, share
  for (reason in count) print "  " count[reason] " × " reason " (" example[reason] ")"
  if (share < least) { print "less than " least "% executed"; exit 1 }
}

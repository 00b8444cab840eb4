# Reads the output of go test -v: prints what each package says of itself, then
# how many tests were skipped, by the reason that the test gave.
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
  print passed + 0 " passed, " skipped + 0 " skipped"
  for (reason in count) print "  " count[reason] " × " reason " (" example[reason] ")"
}

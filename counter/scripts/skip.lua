-- SKIP: an operator wants a message dead-lettered at its next step, whatever its limit and its wait.
--
-- ARGV after the common six (token, consumer and limit are not used: send operator, nothing and 0):
--   7  by   who wants it, for people
--   8  why  for people: the reason of the dead letter
--
-- Replies:
--   SKIPPED  also if it was skipped before: the first note stays
--   NONE     this generation has no record: nothing is done
--   OVER     the message was handled or dead-lettered: nothing is done
--
-- Until then the state is skip, and the notes are the one of the skip. The next START or FAIL writes the tombstone; a
-- success of an open attempt, a reset, or a new use of the id cancels the skip.

return take(function(r, s, q)
  local by, why = ARGV[s.at + 7], ARGV[s.at + 8]
  if not r.was then return 'NONE' end
  if r.state ~= '.' and r.state ~= 'skip' then return 'OVER' end
  if r.state == '.' then
    r.state, r.binds = 'skip', '0'
    r.notes = string.format('skip %d %d %d\n', q.now, #by, #why) .. by .. why
    rarely().free(s, q, by, why)
  end
  return 'SKIPPED', q.ttl
end)

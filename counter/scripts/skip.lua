-- SKIP: an operator wants a message dead-lettered at its next step, whatever its limit and its wait.
--
-- ARGV after the common six (token, holder and limit are not used: send operator, nothing and 0):
--   7  by   who wants it, for people
--   8  why  for people: the reason of the dead letter
--
-- Verdicts:
--   SKIPPED  also if it was skipped before: the first note stays
--   NONE     this generation has no record: nothing is done
--   OVER     the message was handled or dead-lettered: nothing is done
--
-- Until then the state is skip, and the notes are the one of the skip. The next START or FAIL writes the tombstone; a success
-- of an open attempt, a reset, or a new use of the id cancels the skip.

local by, why = ARGV[arg + 7], ARGV[arg + 8]

if not kept then
  verdict = 'NONE'
elseif state ~= '.' and state ~= 'skip' then
  verdict = 'OVER'
else
  verdict, freed_by, freed_why = 'SKIPPED', by, why
  if state == '.' then notes = string.format('skip %d %d %d\n', now, #by, #why) .. by .. why end
  state, binds = 'skip', 0
  holder = string.sub(kept, holder_at, notes_at - 1) -- stays
  live, indexed = ttl, true
end

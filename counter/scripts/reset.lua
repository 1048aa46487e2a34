-- RESET: an operator makes a record clean: no charge, tombstone, wait, suspicion or grant is left. What remains is who did
-- it, the fence, and the tokens, so that a late step of an attempt that was charged before charges nothing now. An attempt
-- that runs is not known any more: if it fails, that is the first charge.
--
-- ARGV beyond the common six (token, holder and limit are not used: send operator, nothing and 0):
--   7  by   who does it, for people
--   8  why  for people
--
-- Verdicts:
--   RESET
--   NONE   nothing is kept of this life of the message: nothing is done

local by, why = ARGV[arg + 7], ARGV[arg + 8]

if not kept then
  verdict = 'NONE'
else
  verdict = 'RESET'
  failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
  first_at, last_at, cause, reason, marker, mode, grant = 0, 0, '.', '', '.', '.', 0
  tokens = string.gsub(tokens, '=[fc]', '=e')
  notes = string.format('reset %d %d %d\n', now, #by, #why) .. by .. why
  holder = string.sub(kept, held, noted - 1) -- stays
  live, indexed = ttl, false
end

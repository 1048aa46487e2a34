-- RESET: an operator clears a record: its counts, history, tombstone, wait, suspicion, open attempt and own limit. The note, the fence and
-- the tokens stay, so that a late step of an attempt that was counted before is not counted now. An attempt that runs
-- meanwhile is no longer known; if it fails, that is the first one counted. A dead letter that did not leave its queue is no longer
-- counted as dead, so it cannot be missing.
--
-- ARGV after the common six (token, holder and limit are not used: send operator, nothing and 0):
--   7  by   who does it, for people
--   8  why  for people
--
-- Verdicts:
--   RESET
--   NONE   this generation has no record: nothing is done

local by, why = ARGV[arg + 7], ARGV[arg + 8]

if not kept then
  verdict = 'NONE'
else
  verdict, freed_by, freed_why = 'RESET', by, why
  if state == 'exhausted' and not string.find(notes, REMOVED) and tonumber(call('HGET', tombstones, 'count') or 0) > 0 then
    call('HINCRBY', tombstones, 'count', -1)
  end
  failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
  first_at, last_at, cause, reason, open, mode, own, history, firsts = 0, 0, '.', '', '.', '.', 0, '', 0
  tokens = string.gsub(tokens, '=[fc]', '=e')
  notes = string.format('reset %d %d %d\n', now, #by, #why) .. by .. why
  holder = string.sub(kept, holder_at, notes_at - 1) -- stays
  live, indexed = ttl, false
end

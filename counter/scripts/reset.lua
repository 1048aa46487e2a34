-- RESET: an operator clears a record: its counts, history, tombstone, wait, suspicion, open attempt and own limit. The
-- note, the fence and the tokens stay, so that a late step of an attempt that was counted before is not counted now.
-- An attempt that runs meanwhile is no longer known; if it fails, that is the first one counted. A dead letter that
-- did not leave its queue is no longer counted as dead, so it cannot be missing.
--
-- ARGV after the common six (token, consumer and limit are not used: send operator, nothing and 0):
--   7  by   who does it, for people
--   8  why  for people
--
-- Replies:
--   RESET
--   NONE   this generation has no record: nothing is done

return take(function(r, s, q)
  local by, why = ARGV[s.at + 7], ARGV[s.at + 8]
  if not r.was then return 'NONE' end
  local dead = r.state == 'exhausted' and not string.find(r.notes, REMOVED)
  if dead and tonumber(call('HGET', q.tombstones, 'count') or 0) > 0 then
    call('HINCRBY', q.tombstones, 'count', -1)
  end
  rarely().clear(r)
  r.notes = string.format('reset %d %d %d\n', q.now, #by, #why) .. by .. why
  rarely().free(s, q, by, why)
  return 'RESET', q.ttl
end)

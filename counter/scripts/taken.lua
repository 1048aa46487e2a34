-- TAKEN: the dead letter of a message left its dead-letter queue: it was replayed or dropped. The record leaves the index,
-- with a note of when. The tombstone stays and binds for as long as it did: a nack that was lost is still repeated.
--
-- ARGV: the common six (token, holder and limit are not used: send operator, nothing and 0).
--
-- Verdicts:
--   TAKEN
--   NONE   there is no tombstone of this generation, or it has the note already: nothing is done
--
-- The note makes a repetition harmless: a dead letter is counted once, however often it is reported.

if not kept or state ~= 'exhausted' or string.find(notes, LEFT) then
  verdict = 'NONE'
else
  verdict = 'TAKEN'
  live, indexed = math.max(1, call('PTTL', record)), false
  holder = string.sub(kept, held, noted - 1) -- stays
  notes = notes .. string.format('left %d 0 0\n', now)
  if tonumber(call('HGET', dead, 'count') or 0) > 0 then -- else it would hide as many of those that are lost later
    call('HINCRBY', dead, 'taken', 1)
    if call('PTTL', dead) < 2 * ttl then call('PEXPIRE', dead, 2 * ttl) end -- consumers may keep it for longer
  end
end

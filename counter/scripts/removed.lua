-- REMOVED: the dead letter of a message left its dead-letter queue: it was replayed or dropped. The record leaves the index
-- and gets a note of the time. The tombstone stays in force as long as before: a lost nack is still repeated.
--
-- ARGV: the common six (token, holder and limit are not used: send operator, nothing and 0).
--
-- Verdicts:
--   REMOVED
--   NONE     this generation has no tombstone, or the tombstone has the note already: nothing is done
--
-- The note makes a repetition harmless: a dead letter is counted once, however often it is reported.

if not kept or state ~= 'exhausted' or string.find(notes, REMOVED) then
  verdict = 'NONE'
else
  verdict = 'REMOVED'
  live, indexed = math.max(1, call('PTTL', record)), false
  holder = string.sub(kept, holder_at, notes_at - 1) -- stays
  notes = notes .. string.format('removed %d 0 0\n', now)
  if tonumber(call('HGET', tombstones, 'count') or 0) > 0 then -- else it would hide as many that are lost later
    call('HINCRBY', tombstones, 'removed', 1)
    if call('PTTL', tombstones) < 2 * ttl then call('PEXPIRE', tombstones, 2 * ttl) end -- consumers may keep it longer
  end
end

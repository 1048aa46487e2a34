-- REMOVED: the dead letter of a message left its dead-letter queue: it was replayed or dropped. The record leaves the
-- index and gets a note of the time. The tombstone stays in force as long as before: a lost nack is still repeated.
--
-- ARGV: the common six (token, consumer and limit are not used: send operator, nothing and 0).
--
-- Replies:
--   REMOVED
--   NONE     this generation has no tombstone, or the tombstone has the note already: nothing is done
--
-- The note makes a repetition harmless: a dead letter is counted once, however often it is reported.

return take(function(r, s, q)
  if r.state ~= 'exhausted' or string.find(r.notes, REMOVED) then return 'NONE' end
  r.notes = r.notes .. string.format('removed %d 0 0\n', q.now)
  if tonumber(call('HGET', q.tombstones, 'count') or 0) > 0 then -- else it would hide as many that are lost later
    call('HINCRBY', q.tombstones, 'removed', 1)
    if call('PTTL', q.tombstones) < 2 * q.ttl then -- consumers may keep it longer
      call('PEXPIRE', q.tombstones, 2 * q.ttl)
    end
  end
  return 'REMOVED', math.max(1, call('PTTL', s.key))
end)

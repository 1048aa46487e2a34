-- BEGUN: the handler of an isolated attempt is about to be called. It is sent as soon as START isolated said RUN, and
-- answered before the call. From now on the death of the process is counted as a crash of this message. It has no
-- arguments but the common six (limit is not used: send 0).
--
-- Replies:
--   BEGUN  call the handler. A repetition is answered the same
--   GONE   do not call it. The attempt is not open any more: the store forgot it, another START took its place, or an
--          operator reset the message. Or the message is decided: handled, dead-lettered or skipped. Send END, then
--          begin another attempt

return take(function(r, s, q)
  if r.open ~= s.token or r.state ~= '.' then return 'GONE' end
  if r.mode == 'isolated' then return 'BEGUN' end
  r.mode, r.consumer = 'isolated', s.consumer
  return 'BEGUN', q.ttl
end)

-- END: an attempt that START let run ended and is not counted: its handler succeeded (send END, then ack), or it was
-- stopped, or its connection was lost while its process lives on.
--
-- ARGV after the common six (limit is not used: send 0):
--   7  succeeded  1 after success, else 0
--   8  keep       ms to keep the record of a success, for a lost ack
--
-- Reply: ENDED. If the attempt was counted as a crash meanwhile, that is reversed.

return take(function(r, s, q)
  local succeeded, keep = ARGV[s.at + 7] == '1', tonumber(ARGV[s.at + 8])
  if s.known == 'e' then return 'ENDED' end -- our reply was lost
  if s.known == 'c' then rarely().uncrash(r, s) end
  if not s.known then r.tokens = r.tokens .. ';' .. s.token .. '=e' end -- a FAIL whose reply was lost stands
  if r.open == s.token then r.open, r.mode = '.', '.' end
  if succeeded then
    if r.state == 'skip' then r.notes = '' end -- it is not skipped
    r.state, r.binds = 'done', format('%d', q.now + BINDS)
  end
  r.consumer = s.consumer
  if r.top or r.state ~= 'done' and r.was then return 'ENDED', q.ttl end -- a copy may come late
  return 'ENDED', keep -- also if the store forgot, or our START is late
end)

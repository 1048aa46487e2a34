-- END: an attempt that START let run ended and is not counted: its handler succeeded (send END, then ack), or it was
-- stopped, or its connection was lost while its process lives on.
--
-- ARGV after the common six (limit is not used: send 0):
--   7  succeeded  1 after success, else 0
--   8  keep       ms to keep the record of a success, for a lost ack
--
-- Verdict: ENDED. If the attempt was counted as a crash meanwhile, that is reversed.

local succeeded, keep = ARGV[arg + 7] == '1', tonumber(ARGV[arg + 8])

verdict = 'ENDED'
if known ~= 'e' then -- else our reply was lost
  if known == 'c' then
    freed_by, freed_why = holder, 'a crash of the message that held the queue turned out to be none'
  elseif succeeded and failures + crashes > 0 then
    freed_by, freed_why = holder, 'the message that held the queue was handled'
  end
  if known == 'c' then
    crashes, unnoted = crashes - 1, token
    if failures + crashes == 0 and state ~= 'exhausted' then first_at, last_at, cause, reason = 0, 0, '.', '' end -- its age begins anew
    tokens = string.sub(tokens, 1, known_at) .. 'e' .. string.sub(tokens, known_at + 2)
  elseif not known then
    tokens = tokens .. ';' .. token .. '=e'
  end -- f: a FAIL whose reply was lost has counted it, which stands
  if open == token then open, mode = '.', '.' end
  if succeeded then
    if state == 'skip' then notes = '' end -- it is not skipped
    state, binds = 'done', now + BINDS
  end
  if state == 'done' or not kept then -- also if another attempt succeeded meanwhile, the store forgot, or our START is late
    live, indexed = top > 0 and ttl or keep, false -- a copy may come late
  else
    live, indexed = ttl, failures + crashes > 0 or state ~= '.' or open ~= '.'
  end
end

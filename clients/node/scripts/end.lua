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
    crashes, unnoted = crashes - 1, token
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
    live, indexed = keep, false
  else
    live, indexed = ttl, failures + crashes > 0 or state ~= '.' or open ~= '.'
  end
end

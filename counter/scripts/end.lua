-- END: an attempt that START let run ended without a charge: its handler succeeded (send END, then ack), or it was
-- stopped, or its connection was lost while the process lives on.
--
-- ARGV beyond the common six (limit is not used: send 0):
--   7  succeeded  1 after success, else 0
--   8  keep       ms that the record of a success is kept, for an ack that is lost
--
-- Verdict: ENDED. A crash that was charged to this attempt while it lived is refunded.

local succeeded, keep = ARGV[arg + 7] == '1', tonumber(ARGV[arg + 8])

verdict = 'ENDED'
if known ~= 'e' then -- else our reply was lost
  if known == 'c' then
    crashes = crashes - 1
    tokens = string.sub(tokens, 1, known_at) .. 'e' .. string.sub(tokens, known_at + 2)
  elseif not known then
    tokens = tokens .. ';' .. token .. '=e'
  end -- a FAIL whose reply was lost has charged it: that stands
  if marker == token then marker, mode = '.', '.' end
  if succeeded then state, binds = 'done', now + BINDS end
  if state == 'done' or not kept then -- also when another attempt succeeded meanwhile; or the store forgot, or our START is late
    live, indexed = keep, false
  else
    live, indexed = ttl, failures + crashes > 0 or state ~= '.' or marker ~= '.'
  end
end

-- OWN: an operator gives a message a limit of its own, or takes it back. It is in force from the next step of the message on.
--
-- ARGV after the common six (token, holder and limit are not used: send operator, nothing and 0):
--   7  attempts  counted attempts at which the message is exhausted, 1 to 1001; 0: it has no limit of its own
--   8  by        who sets it, for people
--   9  why       for people
--
-- Verdicts:
--   LIMITED
--   NONE     this generation has no record: nothing is done
--   OVER     the message was handled, dead-lettered or skipped: nothing is done

if not kept then
  verdict = 'NONE'
elseif state ~= '.' then
  verdict = 'OVER'
else
  verdict, freed_by, freed_why = 'LIMITED', ARGV[arg + 8], ARGV[arg + 9]
  own = math.min(MOST, tonumber(ARGV[arg + 7]))
  holder = string.sub(kept, holder_at, notes_at - 1) -- stays
  live, indexed = ttl, failures + crashes > 0 or open ~= '.'
end

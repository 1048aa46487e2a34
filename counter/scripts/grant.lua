-- GRANT: an operator grants a message more attempts. From its next step on they are added to the limit in force and to
-- earlier grants, up to 1000.
--
-- ARGV after the common six (token, holder and limit are not used: send operator, nothing and 0):
--   7  attempts  how many more, at least 1
--   8  by        who grants them, for people
--   9  why       for people
--
-- Verdicts:
--   GRANTED
--   NONE     this generation has no record: nothing is done
--   OVER     the message was handled or dead-lettered: nothing is done

local attempts, by, why = tonumber(ARGV[arg + 7]), ARGV[arg + 8], ARGV[arg + 9]

if not kept then
  verdict = 'NONE'
elseif state ~= '.' then
  verdict = 'OVER'
else
  verdict, freed_by, freed_why = 'GRANTED', by, why
  grant = math.min(MOST - 1, grant + attempts)
  local _, ends, by_size, why_size = string.find(notes, '^grant %d+ (%d+) (%d+)\n')
  if ends then notes = string.sub(notes, ends + by_size + why_size + 1) end -- the new note replaces it
  notes = string.format('grant %d %d %d\n', now, #by, #why) .. by .. why .. notes
  holder = string.sub(kept, holder_at, notes_at - 1) -- stays
  live, indexed = ttl, failures + crashes > 0 or open ~= '.'
end

-- GRANT: an operator gives a message more tries. They are added to whatever limit is in force, from its next step on, and
-- to those given before, up to 1000.
--
-- ARGV beyond the common six (token, holder and limit are not used: send operator, nothing and 0):
--   7  tries  how many more, 1 at least
--   8  by     who gives them, for people
--   9  why    for people
--
-- Verdicts:
--   GRANTED
--   NONE     nothing is kept of this life of the message: nothing is done
--   OVER     it was handled or is dead-lettered: nothing is done

local tries, by, why = tonumber(ARGV[arg + 7]), ARGV[arg + 8], ARGV[arg + 9]

if not kept then
  verdict = 'NONE'
elseif state ~= '.' then
  verdict = 'OVER'
else
  verdict = 'GRANTED'
  grant = math.min(MOST - 1, grant + tries)
  local _, ends, by_size, why_size = string.find(notes, '^grant %d+ (%d+) (%d+)\n')
  if ends then notes = string.sub(notes, ends + by_size + why_size + 1) end -- the one before is history
  notes = string.format('grant %d %d %d\n', now, #by, #why) .. by .. why .. notes
  holder = string.sub(kept, held, noted - 1) -- stays
  live, indexed = ttl, failures + crashes > 0 or marker ~= '.'
end

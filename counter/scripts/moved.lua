-- MOVED: the broker has confirmed the copy that the verdict MOVE asked for. It is sent once, because the START of the copy says the same.
--
-- ARGV after the common six (limit is not used: send 0):
--   7  hop  of the copy
--
-- Verdicts:
--   MOVED
--   NONE   the record has no move: nothing is done

local confirmed = tonumber(ARGV[arg + 7])

verdict = 'NONE'
if top > 0 then
  verdict = 'MOVED'
  holder = string.sub(kept, holder_at, notes_at - 1) -- stays
  if confirmed > hop then
    hop = confirmed
    if confirmed >= top then top, until_at, mover = confirmed, 0, '.' end
    live, indexed = ttl, state ~= 'done'
  end
end

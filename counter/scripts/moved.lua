-- MOVED: the broker has confirmed the copy that the reply MOVE asked for. It is sent once, because the START of the
-- copy says the same.
--
-- ARGV after the common six (limit is not used: send 0):
--   7  copy  number of the copy
--
-- Replies:
--   MOVED
--   NONE   the record has no move: nothing is done

return take(function(r, s, q)
  local copy = tonumber(ARGV[s.at + 7])
  if not r.top then return 'NONE' end
  if copy <= r.copy then return 'MOVED' end
  rarely().confirm(r, copy)
  return 'MOVED', q.ttl
end)

-- OWN: an operator gives a message a limit of its own, or takes it back. It is in force from the next step of the
-- message on.
--
-- ARGV after the common six (token, consumer and limit are not used: send operator, nothing and 0):
--   7  attempts  counted attempts at which the message is exhausted, 1 to 1001; 0: it has no limit of its own
--   8  by        who sets it, for people
--   9  why       for people
--
-- Replies:
--   LIMITED
--   NONE     this generation has no record: nothing is done
--   OVER     the message was handled, dead-lettered or skipped: nothing is done

return take(function(r, s, q)
  if not r.was then return 'NONE' end
  if r.state ~= '.' then return 'OVER' end
  r.own = string.format('%d', math.min(MOST, ARGV[s.at + 7]))
  rarely().free(s, q, ARGV[s.at + 8], ARGV[s.at + 9])
  return 'LIMITED', q.ttl
end)

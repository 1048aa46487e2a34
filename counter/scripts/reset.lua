-- RESET: an operator makes a record clean: no charge, tombstone, wait, suspicion or grant is left. What remains is who did
-- it, the fence, and the tokens, so that a late step of an attempt that was charged before charges nothing now. An attempt
-- that runs is not known any more: if it fails, that is the first charge.
--
-- ARGV beyond the common seven (token, holder and limit are not used: send operator, nothing and 0):
--   8  by   who does it, for people
--   9  why  for people
--
-- Verdicts:
--   RESET
--   NONE   nothing is kept of this life of the message: nothing is done

local by, why = ARGV[8], ARGV[9]

if not exists then return answer('NONE') end
anew()
holder = redis.call('HGET', record, 'holder') or ''
save(ttl, false)
redis.call('HSET', record, 'reset_by', by, 'reset_at', now, 'reset_why', why)
return answer('RESET')

-- GRANT: an operator gives a message more tries. They are added to whatever limit is in force, from its next step on.
--
-- ARGV beyond the common seven (token, holder and limit are not used: send operator, nothing and 0):
--   8  tries  how many more, 1 at least
--   9  by     who gives them, for people
--   10 why    for people
--
-- Verdicts:
--   GRANTED
--   NONE     nothing is kept of this life of the message: nothing is done
--   OVER     it was handled or is dead-lettered: nothing is done

local tries, by, why = tonumber(ARGV[8]), ARGV[9], ARGV[10]

if not exists then return answer('NONE') end
if state ~= '' then return answer('OVER') end
holder = redis.call('HGET', record, 'holder') or ''
save(ttl, failures + crashes > 0 or marker ~= '')
redis.call('HSET', record, 'grant', grant + tries, 'grant_by', by, 'grant_at', now, 'grant_why', why)
return answer('GRANTED')

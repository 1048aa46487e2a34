-- ASK: a process with a breaker asks for the breaker of its queue, and for a permit. It reports its successes. This is
-- the function AskBreaker of package counter, for clients that have no rules of their own.
--
-- KEYS: 1 index, as in record.lua
-- ARGV:
--   1  ttl       ms that the breaker is kept
--   2  progress  as in record.lua; its attempt is -1
--   3  wants     1: the process has a message to run
--
-- Reply: { permitted, now, success, doubt, open, next, count, failed, permits, reason }. permitted is 1 if the process
-- may begin three attempts. failed is the number of messages in the streak. The others are those of the breaker.

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local b, permitted = rarely().breaker(decode(), { limit = 0 }, { now = now }, ARGV[2]), 0
if ARGV[3] == '1' and b.open > 0 and now >= b.next then
  permitted, b.permits, b.changed = 1, b.permits + 1, true
  b.next = now + (b.permits == 1 and 2000 or 3000)
end
if b.failing and b.awaited <= now + 1000 then b.awaited, b.changed = now + 3000, true end
if b.changed then rarely().keep(b) end
return { permitted, now, b.success, b.doubt, b.open, b.next, b.count, b.failed, b.permits, b.reason }

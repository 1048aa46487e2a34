-- ASK: a process with a breaker asks for the breaker of its queue, and for a permit. It reports its successes. This is
-- the function AskBreaker of package counter, for clients that have no rules of their own.
--
-- KEYS: 1 index, as in record.lua
-- ARGV:
--   1  ttl       ms that the breaker is kept
--   2  progress  as in record.lua; its attempt is -1
--   3  wants     1: the process has a message to run
--   4  seen      the text of an open breaker as the process saw it last, else empty. It is put back into a store that
--                was emptied
--
-- Reply: { permitted, now, success, doubt, open, next, count, failed, reason, text }. permitted is 1 if the process may
-- begin three attempts. failed is the number of messages in the streak, and text the whole breaker if it is open. The
-- others are those of the breaker.

local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, seen = sub(KEYS[1], 1, -6) .. 'breaker', match(ARGV[4], '^%d+ %d+ (%d+) ')
if seen and seen + 0 <= now then -- else the clock was set back
  local open, closed = match(call('GET', key) or '', '^%d+ %d+ (%d+) (%d+) ')
  if (not open or open == '0') and (closed or 0) + 0 < seen + 0 then call('SET', key, ARGV[4], 'PX', ARGV[1]) end
end
local b, permitted = rarely().breaker(decode(), { limit = 0 }, { now = now }, ARGV[2]), 0
if ARGV[3] == '1' and b.open > 0 and now >= b.next then
  permitted, b.permits, b.changed = 1, b.permits + 1, true
  b.next = now + (b.permits == 1 and 2000 or 3000)
end
if b.failing and b.awaited <= now + 1000 then b.awaited, b.changed = now + 3000, true end
if b.changed then rarely().keep(b) end
return { permitted, now, b.success, b.doubt, b.open, b.next, b.count, b.failed, b.reason,
  b.open > 0 and call('GET', key) or '' }

-- CONTROL: a process that consumes a queue asks once a second for the requests of operators, and reports itself. It is
-- a script of its own, without record.lua.
--
-- KEYS:
--   1  pause      hash. paused: 1 while the queue is paused, 0 after a resume; by, at, why: who did that, when and why.
--                 Without it the queue is not paused. Each read renews the TTL of a pause. message (as in skips), id,
--                 generation, cause: of the message for which the queue is paused, if there is one
--   2  consumers  sorted set of "<digit of state> <reader> <consumer>" by the time of the last read. It has those of
--                 the last minute
--   3  skips      sorted set of "<id hash>:<generation hash>" by the time until which the skip is announced. The
--                 record has it too
-- ARGV:
--   1  reader   names the process and queue: 1 to 64 of A-Z a-z 0-9 _ -
--   2  consumer   the process, for people
--   3  state    consuming (0); breaker (2): it consumes, and has a breaker; stopped (1): it holds no delivery of the
--               queue; left: this is its last read
--   4  ttl      ms to keep a pause
--
-- Reply: { paused, by, at, why, … }, then the announced skips. While paused is 1 the process takes no delivery, counts
-- nothing, and lets running handlers end as at a stop. If it cannot read, the last reply stands. A message in the skips
-- gets its next START now, also during its backoff.

local FORGOTTEN = 60000 -- a process that does not read is listed for this long
local SKIPS = 100       -- announced in one reply: the newest, as the others were announced before

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local pause = redis.call('HMGET', KEYS[1], 'paused', 'by', 'at', 'why')
if pause[1] == '1' then redis.call('PEXPIRE', KEYS[1], ARGV[4]) end

local reader = ' ' .. ARGV[1] .. ' ' .. ARGV[2]
redis.call('ZREM', KEYS[2], '0' .. reader, '1' .. reader, '2' .. reader)
if ARGV[3] ~= 'left' then
  redis.call('ZADD', KEYS[2], now, (({ stopped = '1', breaker = '2' })[ARGV[3]] or '0') .. reader)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - FORGOTTEN)
  -- the clock was set back
  for _, member in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[2], '+inf', '(' .. now)) do
    redis.call('ZADD', KEYS[2], now, member)
  end
  redis.call('PEXPIRE', KEYS[2], FORGOTTEN)
end

local reply = { pause[1] or '0', pause[2] or '', pause[3] or '0', pause[4] or '' }
for _, member in ipairs(redis.call('ZREVRANGEBYSCORE', KEYS[3], '+inf', now, 'LIMIT', 0, SKIPS)) do
  reply[#reply + 1] = member
end
return reply

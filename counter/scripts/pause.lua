-- PAUSE: an operator pauses or resumes a queue, or a consumer pauses it for a message without an id. It is a script of its own, without record.lua.
--
-- KEYS:
--   1  pause   as in control.lua
-- ARGV:
--   1  paused  1: pause; 0: resume
--   2  by      who does it, for people
--   3  why     for people
--   4  ttl     ms to keep it
--
-- Reply: 1; 0 if the queue is paused already, or not paused: nothing is done, and the first note stays. A pause for a message that
-- holds the queue becomes the operator's, so that it does not end with a decision about the message. After a resume the message still
-- holds the queue: its next START pauses it again

local was, only = unpack(redis.call('HMGET', KEYS[1], 'paused', 'only'))
if (was or '0') == ARGV[1] and not (ARGV[1] == '1' and only == '1') then return 0 end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('HSET', KEYS[1], 'paused', ARGV[1], 'by', ARGV[2], 'at', now, 'why', ARGV[3])
redis.call('HDEL', KEYS[1], 'only')
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return 1

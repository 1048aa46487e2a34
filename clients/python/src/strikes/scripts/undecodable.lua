-- UNDECODABLE: a message ended a consumer's session, because its client cannot decode it, or the broker cannot convert it to AMQP 0.9.1.
-- It is a script of its own, without record.lua.
--
-- KEYS:
--   1  undecodable  hash of the queue: count of sessions, since and at (ms), holder, after, error, unconverted
-- ARGV:
--   1  ttl     ms to keep it
--   2  holder  the process, for people
--   3  after   id of the message delivered before it, if known
--   4  error   for people
--   5  unconverted  1: the broker could not convert it; empty: the client could not decode it

local key = KEYS[1]
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
if not redis.call('HGET', key, 'since') then redis.call('HSET', key, 'since', now) end
redis.call('HINCRBY', key, 'count', 1)
redis.call('HSET', key, 'at', now, 'holder', ARGV[2], 'error', ARGV[4], 'unconverted', ARGV[5])
if ARGV[3] ~= '' then redis.call('HSET', key, 'after', ARGV[3]) end
redis.call('PEXPIRE', key, ARGV[1])
return 1

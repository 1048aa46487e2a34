-- TAKEN: dead letters were taken out of the dead-letter queue. It stands alone, without record.lua in front.
--
-- KEYS:
--   1  dead  as in record.lua
-- ARGV:
--   1  ttl   for how many ms a record is kept
--   2  n     how many were taken
--
-- Where nothing is counted nothing is noted: what was taken then would hide as many of those that are lost later.

local dead, keep = KEYS[1], 2 * tonumber(ARGV[1])
if tonumber(redis.call('HGET', dead, 'count') or 0) < 1 then return 0 end
redis.call('HINCRBY', dead, 'taken', ARGV[2])
if redis.call('PTTL', dead) < keep then redis.call('PEXPIRE', dead, keep) end -- consumers may keep it for longer
return 1

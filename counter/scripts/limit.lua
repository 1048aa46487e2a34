-- LIMIT: an operator sets the override of a queue. It stands alone, without record.lua in front.
--
-- KEYS:
--   1  override     as in record.lua
-- ARGV:
--   1  max_retries  retries after the first failure, an integer of at most 9 characters
--   2  by           who sets it, for people
--   3  why          for people

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
return redis.call('HSET', KEYS[1], 'max_retries', ARGV[1], 'by', ARGV[2], 'at', now, 'why', ARGV[3])

-- LIMIT: an operator sets the override of a queue. It is a script of its own, without record.lua.
--
-- KEYS:
--   1  override     as in record.lua
-- ARGV:
--   1  max_retries  retries after the first failure, an integer of at most 9 characters; empty: as it is
--   2  by           who sets it, for people
--   3  why          for people
--   4  max_age      ms; a message that fails later than this after its first counted attempt is too old; at most 13 digits; 0: none
--                   is; empty or absent: as it is
--
-- Reply: 1; 0 if both are empty and the queue has no override: nothing is done. If only one is, the note changes

local retries, age = ARGV[1], ARGV[4] or ''
local set = redis.call('HMGET', KEYS[1], 'max_retries', 'max_age')
if retries == '' and age == '' and not set[1] and not set[2] then return 0 end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('HSET', KEYS[1], 'by', ARGV[2], 'at', now, 'why', ARGV[3])
if retries ~= '' then redis.call('HSET', KEYS[1], 'max_retries', retries) end
if age ~= '' then redis.call('HSET', KEYS[1], 'max_age', age) end
return 1

-- LIMIT: an operator sets the override of a queue. It is a script of its own, without record.lua.
--
-- KEYS:
--   1  override     as in record.lua
-- ARGV:
--   1  max_retries  retries after the first failure, an integer of at most 9 characters; empty: as it is, only the note changes
--   2  by           who sets it, for people
--   3  why          for people
--
-- Reply: 1; 0 if max_retries is empty and the queue has no override: nothing is done

if ARGV[1] == '' and not redis.call('HGET', KEYS[1], 'max_retries') then return 0 end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('HSET', KEYS[1], 'by', ARGV[2], 'at', now, 'why', ARGV[3])
if ARGV[1] ~= '' then redis.call('HSET', KEYS[1], 'max_retries', ARGV[1]) end
return 1

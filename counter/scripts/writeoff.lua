-- WRITEOFF: an operator accepts that dead letters are unaccounted for. It runs without record.lua.
--
-- KEYS:
--   1  tombstones  as in record.lua. written_off: how many of count are accepted as lost; written_at: when, in ms; kept: how many that
--                  died until then are neither removed nor written off. removed.lua corrects them. Consumers neither read nor write them
-- ARGV:
--   1  n       how many dead letters to write off
--   2  before  written_off as the operator saw it
--
-- Reply: 1; 0 if another operator wrote some off meanwhile, or if written_off would exceed count: nothing is done

local kept = redis.call('HMGET', KEYS[1], 'count', 'removed', 'written_off')
local count, removed, written = tonumber(kept[1] or 0), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
local n = tonumber(ARGV[1])
if written ~= tonumber(ARGV[2]) or written + removed + n > count then return 0 end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'written_off', written + n, 'written_at', time[1] * 1000 + math.floor(time[2] / 1000),
  'kept', count - removed - written - n)
return 1

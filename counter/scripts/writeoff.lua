-- WRITEOFF: an operator accepts that dead letters are unaccounted for. It runs without record.lua.
--
-- KEYS:
--   1  tombstones  as in record.lua. written_off: how many of count are accepted as lost. Consumers neither read nor write it
-- ARGV:
--   1  n       how many dead letters to write off
--   2  before  written_off as the operator saw it
--
-- Reply: 1; 0 if another operator wrote some off meanwhile, or if written_off would exceed count: nothing is done

local kept = redis.call('HMGET', KEYS[1], 'count', 'removed', 'written_off')
local count, removed, written = tonumber(kept[1] or 0), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
local n = tonumber(ARGV[1])
if written ~= tonumber(ARGV[2]) or written + removed + n > count then return 0 end
redis.call('HINCRBY', KEYS[1], 'written_off', n)
return 1

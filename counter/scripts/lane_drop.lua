-- LANE DROP: an operator gives up the messages at some places of a lane. It is a script of its own, without record.lua.
--
-- KEYS: as lane.lua describes them.
-- ARGV:
--   1  lane  its hash
--   2 …      since and number of each place
--
-- Reply: how many places are open then. The lane is held while there are any.

local lanes, lane, open, letters = KEYS[1], KEYS[3], KEYS[4], KEYS[5]
local since = redis.call('HGET', lane, 'since')
local dropped, any = {}, false
for i = 2, #ARGV, 2 do
  if ARGV[i] == since and redis.call('ZREM', open, ARGV[i + 1]) == 1 then
    dropped[ARGV[i + 1]] = true
    any = true
  end
end
if any then
  redis.call('HSET', lane, 'changed', 1)
  local kept = redis.call('HGETALL', letters)
  for i = 1, #kept, 2 do
    if dropped[string.match(kept[i + 1], '^%d+')] then redis.call('HDEL', letters, kept[i]) end
  end
end
local left = redis.call('ZCARD', open)
if left == 0 then redis.call('ZREM', lanes, ARGV[1]) end
return left

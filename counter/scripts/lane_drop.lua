-- LANE DROP: an operator gives up the messages at some positions of a lane. It is a script of its own, without
-- record.lua.
--
-- KEYS: as lane.lua describes them.
-- ARGV:
--   1  lane  its hash
--   2 …      since and number of each position
--
-- Reply: how many positions are open then. The lane is blocked while there are any.

local lanes, blocked, lane, open, letters, names = KEYS[1], KEYS[3], KEYS[5], KEYS[6], KEYS[7], KEYS[8]
local since = redis.call('HGET', lane, 'since')
for i = 2, #ARGV, 2 do
  local position = ARGV[i + 1]
  if ARGV[i] == since and redis.call('ZREM', open, position) == 1 then
    redis.call('HSET', lane, 'changed', 1)
    for _, letter in ipairs(redis.call('ZRANGEBYSCORE', letters, position, position)) do
      local kind, name = string.match(letter, '^(%a) (%S+)')
      local entry = string.format('%s %016.0f ', name, tonumber(position))
      if kind == 'b' then redis.call('HINCRBY', blocked, 'count', -1) end
      redis.call('ZREMRANGEBYLEX', names, '[' .. entry, '(' .. entry .. '~')
    end
    redis.call('ZREMRANGEBYSCORE', letters, position, position)
  end
end
local left = redis.call('ZCARD', open)
if left == 0 then redis.call('ZREM', lanes, ARGV[1]) end
return left

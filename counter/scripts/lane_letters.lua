-- LANE LETTERS: an operator publishes dead letters of a lane again. It is a script of its own, without record.lua.
--
-- KEYS: as lane.lua describes them.
-- ARGV:
--   1  act  publishing: they are about to be published; replayed: they were, and are off the dead-letter queue
--   2 …     letter, position and id of each
--
-- Reply: how many of them are noted now. Safe to repeat.

local blocked, open, letters, names = KEYS[3], KEYS[6], KEYS[7], KEYS[8]
local noted = 0
for i = 2, #ARGV, 3 do
  local letter, position = ARGV[i], ARGV[i + 1]
  local text = letter .. ' ' .. position .. ' ' .. ARGV[i + 2]
  local counted = redis.call('ZREM', letters, 'b ' .. text)
  local known = counted + redis.call('ZREM', letters, 'd ' .. text, 'p ' .. text)
  if counted == 1 and redis.call('ZSCORE', open, position) then redis.call('HINCRBY', blocked, 'count', -1) end
  if known > 0 then
    noted = noted + 1
    if ARGV[1] == 'publishing' then
      redis.call('ZADD', letters, position, 'p ' .. text)
    else
      local entry = string.format('%s %016.0f ', letter, tonumber(position))
      redis.call('ZREMRANGEBYLEX', names, '[' .. entry, '(' .. entry .. '~')
    end
  end
end
return noted

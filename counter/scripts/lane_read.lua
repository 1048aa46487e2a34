-- LANE READ reads the first positions of a lane and their dead letters. It writes nothing.
--
-- KEYS: as lane.lua describes them.
-- ARGV:
--   1  most   open positions to read
--   2  some   dead letters to read of those, and of positions before them. So many of one position are never passed
--             over
--   3  positions of one letter to read
--
-- Reply: { since, last, open positions in all, their numbers…, letters…, names… } with the last three as lists.
-- Positions are left out from the first whose letters were not all read. The names are those of the letters, each
-- "<letter> <position> <owner> <redelivered>".

local open, letters, names = KEYS[6], KEYS[7], KEYS[8]
local most, some = tonumber(ARGV[1]), tonumber(ARGV[2])
local kept = redis.call('HMGET', KEYS[5], 'since', 'last')
local numbers = redis.call('ZRANGE', open, 0, most - 1)
local found, named, seen = {}, {}, {}
if #numbers > 0 then
  found = redis.call('ZRANGEBYSCORE', letters, numbers[1], numbers[#numbers], 'LIMIT', 0, some)
  if #found == some then
    local cut = tonumber(string.match(found[some], '^%a %S+ (%d+) '))
    while #numbers > 1 and tonumber(numbers[#numbers]) >= cut do numbers[#numbers] = nil end
    local final = tonumber(numbers[#numbers])
    while #found > 0 and tonumber(string.match(found[#found], '^%a %S+ (%d+) ')) > final do found[#found] = nil end
  end
  for _, letter in ipairs(redis.call('ZRANGEBYSCORE', letters, '-inf', '(' .. numbers[1], 'LIMIT', 0, some)) do
    found[#found + 1] = letter
  end
  for _, letter in ipairs(found) do
    local name = string.match(letter, '^%a (%S+)')
    if not seen[name] then
      seen[name] = true
      local from, to = '[' .. name .. ' ', '(' .. name .. '!'
      for _, position in ipairs(redis.call('ZRANGEBYLEX', names, from, to, 'LIMIT', 0, tonumber(ARGV[3]))) do
        named[#named + 1] = position
      end
    end
  end
end
return { kept[1] or '0', kept[2] or '0', redis.call('ZCARD', open), numbers, found, named }

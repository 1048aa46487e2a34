-- LANE BEHIND counts the dead letters of held lanes that have no tombstone: they were dead-lettered without an attempt, behind
-- another. It writes nothing.
--
-- KEYS: lanes and owner, as lane.lua describes them.
-- ARGV:
--   1  skip    so many lanes
--   2  most    lanes to read
--   3  ttl     ms that each step keeps a lane
--   4  recent  ms for which a step is recent
--
-- Reply: { lanes read, dead letters, those of lanes with a recent step }

local queue = string.sub(KEYS[1], 1, -6)
local lanes = redis.call('ZRANGE', KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[1]) + tonumber(ARGV[2]) - 1)
local all, recent = 0, 0
for _, lane in ipairs(lanes) do
  local key = queue .. 'lane:' .. lane
  local open = {}
  for _, place in ipairs(redis.call('ZRANGE', key .. ':open', 0, -1)) do open[place] = true end
  local behind, n = {}, 0 -- by place: one that was replayed and died again may be there twice
  local letters = redis.call('HGETALL', key .. ':letters')
  for i = 1, #letters, 2 do
    local place = string.match(letters[i + 1], '^%d+')
    if open[place] and behind[place] ~= false then
      behind[place] = not redis.call('ZSCORE', queue .. 'dead', letters[i])
    end
  end
  for _, is in pairs(behind) do
    if is then n = n + 1 end
  end
  all = all + n
  if tonumber(ARGV[3]) - redis.call('PTTL', key) < tonumber(ARGV[4]) then recent = recent + n end
end
return { #lanes, all, recent }

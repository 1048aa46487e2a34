-- LANE LIST reads the held lanes of a queue, a page at a time. It writes nothing.
--
-- KEYS: lanes and owner, as lane.lua describes them.
-- ARGV:
--   1  skip  so many lanes
--   2  most  lanes to read
--
-- Reply: for each { name, id of the first message if it is a dead letter, since in ms, open places }

local prefix = string.sub(KEYS[1], 1, -6) .. 'lane:'
local skip = tonumber(ARGV[1])
local reply = {}
for i, lane in ipairs(redis.call('ZRANGE', KEYS[1], skip, skip + tonumber(ARGV[2]) - 1)) do
  local key = prefix .. lane
  local first = redis.call('ZRANGE', key .. ':open', 0, 0)[1]
  local by
  if first then
    local letters = redis.call('HGETALL', key .. ':letters')
    for n = 2, #letters, 2 do
      local place, id = string.match(letters[n], '^(%d+) (.*)$')
      if place == first and (not by or id < by) then by = id end
    end
  end
  reply[i] = { redis.call('HGET', key, 'name'), by or '', redis.call('HGET', key, 'held') or '0', redis.call('ZCARD', key .. ':open') }
end
return reply

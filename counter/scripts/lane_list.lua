-- LANE LIST reads the blocked lanes of a queue, a page at a time. It writes nothing.
--
-- KEYS: lanes and owner, as lane.lua describes them.
-- ARGV:
--   1  skip  so many lanes
--   2  most  lanes to read
--
-- Reply: for each { name, id of the first message if it is a dead letter, since in ms, open positions }

local prefix = string.sub(KEYS[1], 1, -6) .. 'lane:'
local skip = tonumber(ARGV[1])
local reply = {}
for i, lane in ipairs(redis.call('ZRANGE', KEYS[1], skip, skip + tonumber(ARGV[2]) - 1)) do
  local key = prefix .. lane
  local first = redis.call('ZRANGE', key .. ':open', 0, 0)[1]
  local by
  local those = first and redis.call('ZRANGEBYSCORE', key .. ':letters', first, first, 'LIMIT', 0, 10) or {}
  for _, letter in ipairs(those) do
    local id = string.match(letter, '^[bd] %S+ %d+ (.*)$')
    if id and (not by or id < by) then by = id end
  end
  local since = redis.call('HGET', key, 'blocked') or '0'
  reply[i] = { redis.call('HGET', key, 'name'), by or '', since, redis.call('ZCARD', key .. ':open') }
end
return reply

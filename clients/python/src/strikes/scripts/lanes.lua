-- LANES: the consumer of an ordered queue with HoldLanes begins a session, or renews what is kept of its lanes. It is a script of
-- its own, without record.lua.
--
-- KEYS:
--   1  lanes  as in lane.lua
--   2  owner  as in lane.lua
-- ARGV:
--   1  ttl     ms to keep what is known of a held lane
--   2  before  the session that owned the lanes; empty: none
--   3  owner   names the session that is to own them, if before does: 1 to 64 of A-Z a-z 0-9 _ -. Then the steps of every other are
--              refused. Empty: read only
--
-- Reply: the owner, empty if there is none; then the held lanes, each as the first 16 bytes of SHA-256(name), in lower-case hex

local prefix = string.sub(KEYS[1], 1, -6) .. 'lane:'
local held = redis.call('ZRANGE', KEYS[1], 0, -1)
for _, lane in ipairs(held) do
  redis.call('PEXPIRE', prefix .. lane, ARGV[1])
  redis.call('PEXPIRE', prefix .. lane .. ':open', ARGV[1])
  redis.call('PEXPIRE', prefix .. lane .. ':letters', ARGV[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
local owner = redis.call('GET', KEYS[2]) or ''
if ARGV[3] ~= '' and owner == ARGV[2] then owner = ARGV[3] end
if ARGV[3] ~= '' and owner == ARGV[3] then redis.call('SET', KEYS[2], owner, 'PX', ARGV[1]) end
table.insert(held, 1, owner)
return held

-- LANES: the consumer of an ordered queue with HoldLanes begins a session. It is a script of its own, without
-- record.lua. It costs the same however many lanes are blocked.
--
-- KEYS: lanes, owner and blocked, as lane.lua describes them.
-- ARGV:
--   1  ttl     ms to keep what is known of a blocked lane
--   2  before  the session that owned the lanes; empty: none
--   3  owner   names the session that is to own them, if before does: 1 to 64 of A-Z a-z 0-9 _ -. Then the steps of
--              every other are refused. Empty: read only
--
-- Reply: { owner, empty if there is none; how many lanes are blocked }

for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
local owner = redis.call('GET', KEYS[2]) or ''
if ARGV[3] ~= '' and owner == ARGV[2] then
  owner = ARGV[3]
  redis.call('SET', KEYS[2], owner, 'PX', ARGV[1])
end
return { owner, redis.call('ZCARD', KEYS[1]) }

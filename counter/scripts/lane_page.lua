-- LANE PAGE: the owner of the lanes reads a page of the blocked ones, and renews what the store keeps of them and of
-- their queue. A page says where the next begins by the time and name of its last lane, so that lanes which are
-- released meanwhile, and another server that takes over, let no blocked lane be passed over.
--
-- KEYS: lanes, owner and blocked, as lane.lua describes them.
-- ARGV:
--   1  ttl    ms to keep what is known of a blocked lane
--   2  most   lanes to read
--   3  since  of the last lane of the page before, as the reply has it; empty: begin
--   4  lane   its hash
--
-- Reply: { since of the last lane, hashes of the lanes… }. A page with fewer than most lanes is the last.

local prefix = string.sub(KEYS[1], 1, -6) .. 'lane:'
local from = 0
if ARGV[3] ~= '' then
  local rank = redis.call('ZRANK', KEYS[1], ARGV[4])
  if rank and redis.call('ZSCORE', KEYS[1], ARGV[4]) == ARGV[3] then
    from = rank + 1
  else
    from = redis.call('ZCOUNT', KEYS[1], '-inf', '(' .. ARGV[3])
  end
end
local page = redis.call('ZRANGE', KEYS[1], from, from + tonumber(ARGV[2]) - 1)
for _, lane in ipairs(page) do
  for _, suffix in ipairs({ '', ':open', ':letters', ':names' }) do
    redis.call('PEXPIRE', prefix .. lane .. suffix, ARGV[1])
  end
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end
table.insert(page, 1, #page > 0 and redis.call('ZSCORE', KEYS[1], page[#page]) or '')
return page

-- SUMMARY reads the summary of one queue for an operator. It writes nothing.
--
-- KEYS: index, override and tombstones, as record.lua describes them; the note of an undecodable message; dead of
-- record.lua; the key of pause and consumers of control.lua; lanes, the set of blocked lanes.
-- ARGV:
--   1  skip    so many of the records that were written last, and of the tombstones
--   2  most    records to read
--   3  recent  ms since a dead letter's last attempt in which it may be on its way
--   4  forgotten  ms that a message may wait for its next attempt
--
-- Reply: { now, more, retrying, forgotten, recent, head, tombstones, override, pause, undecodable, waiting,
-- blocked lanes, tombstones in dead, breaker }
-- more is 1 if there are records or tombstones to read after these. retrying are the records that failed, or run, and
-- are not dead-lettered; forgotten are those that are ready for too long.
-- The head is the record of the one that has retried for longest. It is one that is forgotten, or waits in a delay
-- queue, only if all do. tombstones, override and pause are the fields of the hashes, or the error of a key that is
-- none; undecodable is a text, or the error of a key of another type. waiting is the report of each process about
-- messages whose attempts are not counted: "<messages> <ms> <why>". blocked lanes is their number, or the error of a
-- key of another type.

local index = KEYS[1]
local prefix = string.sub(index, 1, -6) .. 'r:'
local skip, most, fresh, patience = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local waiting = {} -- of the processes that control.lua lists
local consumers = redis.pcall('ZRANGE', KEYS[7], 0, -1)
if consumers.err then return consumers end
for _, member in ipairs(consumers) do
  local report = redis.pcall('GET', string.sub(index, 1, -6) .. 'waiting:' .. (string.match(member, '^%d (%S+)') or ''))
  if type(report) == 'string' then waiting[#waiting + 1] = report end
end

-- While the breaker stops, the queue is paused or a process reports messages, a record that no step writes is not
-- forgotten. The time before the breaker closed does not count.
local breaker = redis.pcall('GET', string.sub(index, 1, -6) .. 'breaker')
local doubt, opened, closed
if type(breaker) == 'string' then doubt, opened, closed = string.match(breaker, '^%d+ (%d+) (%d+) (%d+) ') end
local rests = #waiting > 0 or (doubt or '0') ~= '0' or (opened or '0') ~= '0'
  or redis.pcall('HGET', KEYS[6], 'paused') == '1'
closed = tonumber(closed or 0)

local members = redis.call('ZREVRANGEBYSCORE', index, '+inf', '-inf', 'LIMIT', skip, most)
local retrying, forgotten, recent = 0, 0, 0
local head, head_since, head_away = false, 0, true

for _, member in ipairs(members) do
  local kept = redis.pcall('GET', prefix .. member)
  local failures, crashes, state, due, first, last, open, since
  if type(kept) == 'string' then
    failures, crashes, state, due, first, last, open, since =
      string.match(kept, '^(%d+) (%d+) %d+ %d+ %d (%S+) %d+ (%d+) %d+ (%d+) (%d+) %S+ (%S+) %S+ (%d+) ')
  end
  if state == '.' and (failures + crashes > 0 or open ~= '.') then
    first, last, due, since = tonumber(first), first + last, tonumber(due), tonumber(since)
    local late = open == '.' and not rests and now - math.max(due > 0 and due or last, closed) > patience
    local away = late or open == '.' and due > now and string.find(kept, '^[^\n]* %d+:%d+:%d+:%S+\n') ~= nil
    if first > 0 then since = first end
    retrying = retrying + 1
    if late then forgotten = forgotten + 1 end
    if not head or head_away and not away or head_away == away and since < head_since then
      head, head_since, head_away = kept, since, away
    end
  end
end

local read, stale = 0, 0 -- tombstones; a few old ones among the newest were renewed
while read < most and stale < 10 do
  local newest = redis.call('ZREVRANGEBYSCORE', KEYS[5], '+inf', '-inf', 'LIMIT', skip + read, 20)
  for _, member in ipairs(newest) do
    local kept = redis.pcall('GET', prefix .. member)
    local first, last
    if type(kept) == 'string' then
      first, last = string.match(kept, '^%d+ %d+ %d+ %d+ %d exhausted %d+ %d+ %d+ (%d+) (%d+) ')
    end
    if first and now - first - last < fresh then recent = recent + 1 else stale = stale + 1 end
  end
  if #newest == 0 then break end
  read = read + #newest
end
local more = redis.call('ZCARD', index) > skip + most
  or stale < 10 and redis.call('ZCARD', KEYS[5]) > skip + read

return { now, more and 1 or 0, retrying, forgotten, recent, head,
  redis.pcall('HGETALL', KEYS[3]), redis.pcall('HGETALL', KEYS[2]), redis.pcall('HGETALL', KEYS[6]),
  redis.pcall('GET', KEYS[4]), waiting, redis.pcall('ZCARD', KEYS[8]),
  redis.pcall('ZCOUNT', KEYS[5], now, '+inf'), breaker }

-- LANE: a message of a lane is about to run, to be dead-lettered or to be acked. It is a script of its own, without record.lua.
-- A consumer sends it for a lane that it knows to be held, for a message that carries a place, and before each dead letter.
--
-- A message that its queue delivers again, without a place, gets a new one from each session: it comes after all that is a dead letter.
--
-- A lane is held while one of its places is open. Only the message at the first open place may run; all others are parked, which
-- is to be dead-lettered without an attempt. So the order of the places is the order of the attempts, whatever operators
-- publish, however often, and whenever.
--
-- KEYS. All have the hash tag {vhost/queue}:
--   1  lanes    sorted set of the held lanes by the time since which they are. A lane is named by the first 16 bytes of
--               SHA-256(name), in lower-case hex
--   2  owner    the session whose steps are taken (lanes.lua)
--   3  lane     …lane:<lane>, hash. name: for people; since: time in µs, distinguishes the places of this store from those of one
--               that has lost its memory; last: number of the newest place; held: time in ms; owner, number: of the last step;
--               said: what it was replied, "<verdict> <place>"; base: the last place when that session began in the lane;
--               changed: an operator dropped places after that step. It stays after a release, so that late duplicates are recognised
--   4  open     …:open, sorted set of the numbers of the open places
--   5  letters  …:letters, hash of the dead letters: "<id hash>:<generation hash>" to "<place> <id>". A letter leaves it once it
--               was published again and is off the dead-letter queue
-- ARGV:
--   1  ttl      ms to keep it
--   2  act      enter: it is about to run; park: it is about to be dead-lettered; leave: it succeeded, and is about to be acked
--   3  owner    the session
--   4  number   of the step: greater than those of the earlier steps of the session in this lane. The same if it is repeated
--   5  name     of the lane, for people
--   6  lane     its hash
--   7  letter   "<id hash>:<generation hash>" of the message; without an id a name that no dead letter has
--   8  id       of the message, for people
--   9  since    of the place that the message carries; 0: none
--   10 place    its number; 0: none
--
-- Reply: { verdict, since, place }, the place of the message, 0 if it has none. A repeated step gets the reply of the first, and changes
-- nothing: an operator may have replayed the message meanwhile, and the place that it would get had no dead letter
--   FREE     the lane is not held. enter: run the message
--   RUN      (enter only) run the message: its place is the first
--   HELD     enter: dead-letter the message without an attempt, it is parked. park, leave: done, and the lane is held
--   STALE    the place of the message is not open any more. enter: ack the message. park: dead-letter it
--   UNOWNED  nothing is done: another session owns the lanes, or a later step or an operator came first. End the session
--   UNKNOWN  nothing is done: the store has lost its memory of the lanes. End the session

local lanes, owner, lane, open, letters = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local ttl, act, session, number, letter = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[7]
local since, place = ARGV[9], tonumber(ARGV[10])
local carried = place > 0

local owned = redis.call('GET', owner)
if not owned then return { 'UNKNOWN', '0', '0' } end
if owned ~= session then return { 'UNOWNED', '0', '0' } end

local kept = redis.call('HMGET', lane, 'since', 'last', 'owner', 'number', 'changed', 'base', 'said')
if kept[3] == session then
  local latest = tonumber(kept[4])
  if latest > number or latest == number and kept[5] then return { 'UNOWNED', '0', '0' } end
  if latest == number then
    local said, at = string.match(kept[7], '^(%u+) (%d+)$')
    return { said, kept[1], at }
  end
end

local time = redis.call('TIME')
local began, last = kept[1] or string.format('%.0f', time[1] * 1000000 + time[2]), tonumber(kept[2] or 0)
local base = kept[3] == session and tonumber(kept[6]) or last
if since ~= began or place > last then place = 0 end

local function isOpen(n) return redis.call('ZSCORE', open, n) end

local verdict
if place > 0 and not isOpen(place) then
  verdict = 'STALE'
elseif act == 'leave' then
  if place > 0 then redis.call('ZREM', open, place) end
  verdict = 'HELD'
  if redis.call('ZCARD', open) == 0 then
    redis.call('ZREM', lanes, ARGV[6])
    verdict = 'FREE'
  end
elseif act == 'enter' and place > 0 and redis.call('ZRANGE', open, 0, 0)[1] == ARGV[10] then
  verdict = 'RUN'
elseif act == 'enter' and not carried and redis.call('ZCARD', open) == 0 then
  verdict = 'FREE'
else
  verdict = 'HELD'
  if place == 0 then
    local before = string.match(redis.call('HGET', letters, letter) or '', '^%d+')
    if before and isOpen(before) then
      if tonumber(before) > base then
        place = tonumber(before)
      else -- the nack of that session never arrived, and its ack of a message before this one may not have arrived either
        redis.call('ZREM', open, before)
      end
    end
  end
  if place == 0 then
    last = last + 1
    place = last
    if redis.call('ZCARD', open) == 0 then
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      redis.call('ZADD', lanes, now, ARGV[6])
      redis.call('HSET', lane, 'held', now)
    end
    redis.call('ZADD', open, place, place)
  end
  redis.call('HSET', letters, letter, place .. ' ' .. ARGV[8])
end

if last > 0 then
  redis.call('HSET', lane, 'name', ARGV[5], 'since', began, 'last', last, 'owner', session, 'number', number, 'base', base,
    'said', verdict .. ' ' .. place)
  redis.call('HDEL', lane, 'changed')
  for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ttl) end
end
return { verdict, began, tostring(place) }

-- LANE: a message of a lane is about to run, to be dead-lettered or to be acked. It is a script of its own, without
-- record.lua. A consumer sends it before each dead letter, for a message that carries a position, and for a lane that
-- is blocked or may be.
--
-- A message without a position gets a new one, behind all others. So a second message of the same id never takes the
-- position of the first. A message whose nack never arrived gets two: a replay finds one dead letter for both, and
-- gives up the older.
--
-- A lane is blocked while one of its positions is open. Only the message at the first open position may run. All others
-- are blocked: they are dead-lettered without an attempt. So the order of the positions is the order of the attempts,
-- whatever operators publish, however often, and whenever.
--
-- KEYS. All have the hash tag {vhost/queue}:
--   1  lanes    sorted set of the blocked lanes by the time since which they are. A lane is named by the first 16 bytes
--               of SHA-256(name), in lower-case hex
--   2  owner    the session whose steps are taken (lanes.lua)
--   3  blocked  …lanes:blocked, hash. count: dead letters at open positions of all lanes that have no tombstone,
--               because they were dead-lettered without an attempt; s<time in s>: how many such there were in this
--               second, for a minute
--   4  dead     as in record.lua
--   5  lane     …lane:<lane>, hash. name: for people; since: time in µs, distinguishes the positions of this store from
--               those of one that has lost its memory; last: number of the newest position; blocked: time in ms; owner,
--               number: of the last step; said: its reply, "<code> <position>"; changed: an operator dropped positions
--               after that step. It stays after a release, so that late duplicates are recognised
--   6  open     …:open, sorted set of the numbers of the open positions
--   7  letters  …:letters, sorted set of the dead letters by position: "<kind> <letter> <position> <id>". The kind is b
--               if it counts in blocked, p if an operator publishes it (lane_letters.lua), else d. A letter leaves the
--               set once it was published again and is off the dead-letter queue
--   8  names    …:names, sorted set of the same letters with the score 0: "<letter> <position, 16 digits> <owner>
--               <redelivered>"
-- ARGV:
--   1  ttl      ms to keep it
--   2  act      enter: it is about to run; block: it is about to be dead-lettered; leave: it succeeded, and is about to
--               be acked
--   3  owner    the session
--   4  number   of the step: greater than those of the earlier steps of the session in this lane. The same if it is
--               repeated
--   5  name     of the lane, for people
--   6  lane     its hash
--   7  letter   "<id hash>:<generation hash>" of the message
--   8  id       of the message, for people
--   9  since    of the position that the message carries; 0: none
--   10 position    its number; 0: none
--   11 again    1: the broker has delivered the message before; else 0
--
-- Reply: { code, since, position }, the position of the message, 0 if it has none. A repeated step gets the reply of
-- the first, and changes nothing. An operator may have replayed the message meanwhile, so a new position would have no
-- dead letter.
--   FREE     the lane is not blocked. enter: run the message
--   RUN      (enter only) run the message: its position is the first
--   BLOCKED  enter: dead-letter the message without an attempt, it is blocked. block, leave: done, and the lane is
--            blocked
--   SUPERSEDED    the position of the message is not open any more. enter: ack the message. block: dead-letter it
--   UNOWNED  nothing is done: another session owns the lanes, or a later step or an operator came first. End the
--            session
--   UNKNOWN  nothing is done: the store has lost its memory of the lanes. End the session

local lanes, owner, blocked, dead, lane, open, letters, names = unpack(KEYS)
local ttl, act, session, number, letter, id = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[7], ARGV[8]
local since, position = ARGV[9], tonumber(ARGV[10])
local carried = position > 0

local owned = redis.call('GET', owner)
if not owned then return { 'UNKNOWN', '0', '0' } end
if owned ~= session then return { 'UNOWNED', '0', '0' } end

local kept = redis.call('HMGET', lane, 'since', 'last', 'owner', 'number', 'changed', 'said')
if kept[3] == session then
  local latest = tonumber(kept[4])
  if latest > number or latest == number and kept[5] then return { 'UNOWNED', '0', '0' } end
  if latest == number then
    local said, at = string.match(kept[6], '^(%u+) (%d+)$')
    return { said, kept[1], at }
  end
end

local time = redis.call('TIME')
local began, last = kept[1] or string.format('%.0f', time[1] * 1000000 + time[2]), tonumber(kept[2] or 0)
if since ~= began or position > last then position = 0 end

local code
if position > 0 and not redis.call('ZSCORE', open, position) then
  code = 'SUPERSEDED'
elseif act == 'leave' then
  if position > 0 then
    redis.call('ZREM', open, position)
    for _, at in ipairs(redis.call('ZRANGEBYSCORE', letters, position, position)) do
      if string.sub(at, 1, 1) == 'b' then redis.call('HINCRBY', blocked, 'count', -1) end
    end
  end
  code = 'BLOCKED'
  if redis.call('ZCARD', open) == 0 then
    redis.call('ZREM', lanes, ARGV[6])
    code = 'FREE'
  end
elseif act == 'enter' and position > 0 and redis.call('ZRANGE', open, 0, 0)[1] == ARGV[10] then
  code = 'RUN'
elseif act == 'enter' and not carried and redis.call('ZCARD', open) == 0 then
  code = 'FREE'
else
  code = 'BLOCKED'
  local kind = act == 'enter' and not redis.call('ZSCORE', dead, letter) and 'b' or 'd'
  if position == 0 then
    last = last + 1
    position = last
    if redis.call('ZCARD', open) == 0 then
      local now = time[1] * 1000 + math.floor(time[2] / 1000)
      redis.call('ZADD', lanes, now, ARGV[6])
      redis.call('HSET', lane, 'blocked', now)
    end
    redis.call('ZADD', open, position, position)
    if kind == 'b' and ARGV[11] == '1' then -- of the two positions of a message whose nack never arrived, one counts
      local before = redis.call('ZRANGEBYLEX', names, '[' .. letter .. ' ', '(' .. letter .. '!', 'LIMIT', 0, 1)[1]
      if before and string.match(before, '^%S+ %S+ (%S+)') ~= session then kind = 'd' end
    end
  end
  local text = letter .. ' ' .. position .. ' ' .. id
  if redis.call('ZREM', letters, 'b ' .. text) == 1 then redis.call('HINCRBY', blocked, 'count', -1) end
  redis.call('ZREM', letters, 'd ' .. text, 'p ' .. text)
  redis.call('ZADD', letters, position, kind .. ' ' .. text)
  local entry = string.format('%s %016.0f ', letter, position)
  redis.call('ZREMRANGEBYLEX', names, '[' .. entry, '(' .. entry .. '~')
  redis.call('ZADD', names, 0, entry .. session .. ' ' .. ARGV[11])
  if kind == 'b' then
    redis.call('HINCRBY', blocked, 'count', 1)
    if redis.call('HINCRBY', blocked, 's' .. time[1], 1) == 1 then
      local fields = redis.call('HGETALL', blocked)
      for i = 1, #fields, 2 do
        local second = string.match(fields[i], '^s(%d+)$')
        if second and tonumber(second) < time[1] - 60 then redis.call('HDEL', blocked, fields[i]) end
      end
    end
  end
end

if last > 0 then
  redis.call('HSET', lane, 'name', ARGV[5], 'since', began, 'last', last, 'owner', session, 'number', number,
    'said', code .. ' ' .. position)
  redis.call('HDEL', lane, 'changed')
  for i, key in ipairs(KEYS) do
    if i ~= 4 then redis.call('PEXPIRE', key, ttl) end
  end
end
return { code, began, tostring(position) }

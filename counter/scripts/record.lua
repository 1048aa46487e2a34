-- What the three steps share, and what operators do to a record. A step is this file followed by start.lua, fail.lua or
-- end.lua (grant.lua and reset.lua are made alike):
--   cat record.lua fail.lua | redis-cli -x SCRIPT LOAD
--
-- One record is the life of one message in one queue: a hash that exists only while something about the message has
-- to be remembered. A first delivery that succeeds never touches it. Redis 6.2 or later, Valkey 7.2 or later.
--
-- KEYS, all with the hash tag {vhost/queue}, so that a step is one slot of a cluster:
--   1  record    <prefix>:{<vhost>/<queue>}:r:<id hash>:<life hash>
--   2  index     <prefix>:{<vhost>/<queue>}:index     sorted set, "<id hash>:<life hash>" by the time the record expires
--   3  override  <prefix>:{<vhost>/<queue>}:limit     hash an operator may write; field max_retries, an integer
--                                                          of at most 9 characters (negative: none), else ignored;
--                                                          by, at, why: who set it, when and why (limit.lua)
--   4  dead      <prefix>:{<vhost>/<queue>}:dead      hash; count: tombstones written, since: from when on
--   <prefix>     strikes:1 unless configured
--   <vhost>, <queue>  percent-encoded, all bytes but A-Z a-z 0-9 - _ . ~
--   <id hash>    the first 16 bytes of SHA-256(message id), in lower-case hex
--   <life hash>  the first 8 bytes of SHA-256(life), in lower-case hex; 0 if the life is empty
--
-- ARGV that every step begins with:
--   1  token    of this attempt, unique to one run of a handler: 1 to 64 of A-Z a-z 0-9 _ -
--   2  id       the message id, kept for people
--   3  life     what tells this life of the message from the one before its last dead-lettering; may be empty
--   4  holder   the process that makes the step, kept for people
--   5  ttl      of the record, in ms, renewed by each step that writes
--   6  limit    charges at which the message is exhausted (retries + 1); 0: exhausted whatever its charges. An override
--               replaces it and a grant is added to it, unless it is 0
--   7  age      for how many ms this process has had the delivery, if it was not redelivered and this is its first run;
--               else -1
--
-- Reply of every step: { verdict, failures, crashes, limit in force, starts, wait in ms, last error }
--
-- Fields of a record (times are Redis TIME in ms; one that is empty or 0 is absent, but for failures):
--   id life holder       as given
--   failures crashes     charges of each kind; their sum is held against the limit
--   tokens               ";token=kind" for each known attempt: f failure charged, c crash charged, e ended uncharged
--   marker mode since    the attempt that runs now: its token, shared or exclusive, and from when
--   starts               attempts that were let run by START; only grows, so it can serve as a fencing token
--   suspect              1 once an attempt was found open: it may have killed its process
--   state binds          "exhausted": a tombstone, which binds until `binds`; "done": handled, the ack on its way;
--                        `binds` is ten minutes after either
--   due                  when the next attempt may begin
--   first last error     time of the first and of the last charge, and the reason of the last
--   limit                the last one that a step was given, before override and grant
--   grant                tries an operator has given beyond the limit; grant_by, grant_at, grant_why: who, when and why
--   reset_by reset_at reset_why   of the last time an operator made the record clean

local BINDS = 600000 -- a reject that was lost comes back within this or is a new use of the id
local ENDED = 16     -- uncharged attempts remembered, so that a START of theirs that arrives late opens nothing

local record, index, override, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local token, id, life, holder = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local ttl, limit, age = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

local got = redis.call('HMGET', record, 'failures', 'crashes', 'tokens', 'marker', 'mode', 'since', 'starts', 'suspect',
  'state', 'binds', 'due', 'first', 'last', 'error', 'grant')
local exists = got[1] ~= false
local failures, crashes = tonumber(got[1] or 0), tonumber(got[2] or 0)
local tokens = got[3] or ''
local marker, mode, since = got[4] or '', got[5] or '', tonumber(got[6] or 0)
local starts = tonumber(got[7] or 0)
local suspect = got[8] == '1'
local state, binds = got[9] or '', tonumber(got[10] or 0)
local due = tonumber(got[11] or 0)
local first_at, last_at, reason = tonumber(got[12] or 0), tonumber(got[13] or 0), got[14] or ''
local grant = tonumber(got[15] or 0)

local configured = limit
if limit > 0 then
  local retries = redis.call('HGET', override, 'max_retries') or ''
  if #retries < 10 and string.match(retries, '^%-?%d+$') then limit = math.max(1, tonumber(retries) + 1) end
  limit = limit + grant
end

-- kind of a token, and where in tokens it stands; nil if this record does not know it
local function kind(of)
  local _, at = string.find(tokens, ';' .. of .. '=', 1, true)
  if at then return string.sub(tokens, at + 1, at + 1), at end
end

local function remember(of, as)
  local _, at = kind(of)
  if at then
    tokens = string.sub(tokens, 1, at) .. as .. string.sub(tokens, at + 2)
  else
    tokens = tokens .. ';' .. of .. '=' .. as
  end
end

-- forgets the oldest uncharged attempts beyond the number worth remembering
local function bound()
  if not string.find(tokens, '=e', 1, true) then return end
  local _, ended = string.gsub(tokens, '=e', '')
  if ended > ENDED then tokens = string.gsub(tokens, ';[%w_-]+=e', '', ended - ENDED) end
end

local function exhausted() return failures + crashes >= limit end

-- whether the tombstone or the success is of an earlier use of the id: a delivery can be a new one only if it came after
local function earlier() return age >= 0 and binds - BINDS <= now - age end

-- what an earlier use of the id left behind is history; its tokens stay, so that its late steps charge nothing here
local function anew()
  failures, crashes, due, suspect, state, binds, marker, mode = 0, 0, 0, false, '', 0, '', ''
  first_at, last_at, reason = 0, 0, ''
  tokens = string.gsub(tokens, '=[fc]', '=e')
  limit, grant = math.max(0, limit - grant), 0
  redis.call('HDEL', record, 'grant', 'grant_by', 'grant_at', 'grant_why', 'reset_by', 'reset_at', 'reset_why')
end

local function bury()
  state, binds = 'exhausted', now + BINDS
  if redis.call('HINCRBY', dead, 'count', 1) == 1 then redis.call('HSET', dead, 'since', now) end
  redis.call('PEXPIRE', dead, 2 * ttl)
end

local function charged(why)
  if first_at == 0 then first_at = now end
  last_at, reason = now, why
end

-- writes the record, renews its TTL, moves it in the index (or takes it off) and trims what the index outlived
local function save(live, indexed)
  bound()
  local set, unset = { 'id', id, 'failures', failures }, {} -- what is empty or 0 is not stored: a sixth less memory
  local function put(field, value)
    if value == '' or value == 0 then
      unset[#unset + 1] = field
    else
      set[#set + 1], set[#set + 2] = field, value -- a number too: all are whole and below 2^53, so written in full
    end
  end
  put('life', life) put('holder', holder) put('crashes', crashes) put('tokens', tokens)
  put('marker', marker) put('mode', mode) put('since', since) put('starts', starts)
  put('suspect', suspect and 1 or 0) put('state', state) put('binds', binds) put('due', due)
  put('first', first_at) put('last', last_at) put('error', reason)
  if configured > 0 then put('limit', configured) end
  redis.call('HSET', record, unpack(set))
  if exists and #unset > 0 then redis.call('HDEL', record, unpack(unset)) end
  redis.call('PEXPIRE', record, live)

  local member = string.match(record, ':r:(%x+:%x+)$')
  if indexed then
    redis.call('ZADD', index, now + live, member)
    if redis.call('PTTL', index) < live then redis.call('PEXPIRE', index, 2 * live) end -- twice: seldom again
  else
    redis.call('ZREM', index, member)
  end
  local past = redis.call('ZRANGEBYSCORE', index, '-inf', now, 'LIMIT', 0, 3)
  if #past > 0 then redis.call('ZREM', index, unpack(past)) end
end

local function answer(verdict)
  return { verdict, failures, crashes, limit, starts, math.max(0, due - now), reason }
end

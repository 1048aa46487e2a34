-- What every script begins with. Each step of it reads a record (this file), decides (start.lua, fail.lua or end.lua;
-- grant.lua, reset.lua and taken.lua are made alike), and writes and answers (save.lua):
--   cat record.lua fail.lua save.lua | redis-cli -x SCRIPT LOAD
-- Steps of one kind on one queue go together, for what a script costs before it does anything is as much as half a step.
-- They share variables instead of functions: to make a function costs Redis as much as a command, in each run.
--
-- One record is the life of one message in one queue: a string that exists only while something about the message has
-- to be remembered. A first delivery that succeeds never touches it. Redis 6.0 or later, or Valkey.
--
-- KEYS, all with the hash tag {vhost/queue}, so that a script is one slot of a cluster:
--   1  index     <prefix>:{<vhost>/<queue>}:index     sorted set, "<id hash>:<life hash>" by the time the record expires,
--                                                          or at most a second before
--   2  override  <prefix>:{<vhost>/<queue>}:limit     hash an operator may write; field max_retries, an integer
--                                                          of at most 9 characters (negative: none), else ignored;
--                                                          by, at, why: who set it, when and why (limit.lua)
--   3  dead      <prefix>:{<vhost>/<queue>}:dead      hash; count: tombstones written, since: from when on,
--                                                          taken: of how many the dead letter left its queue (taken.lua)
--   4  record    <prefix>:{<vhost>/<queue>}:r:<id hash>:<life hash>
--   5 …          the records of further steps, if there are any
--   <prefix>     strikes:1 unless configured
--   <vhost>, <queue>  percent-encoded, all bytes but A-Z a-z 0-9 - _ . ~
--   <id hash>    the first 16 bytes of SHA-256(message id), in lower-case hex
--   <life hash>  the first 8 bytes of SHA-256(life), in lower-case hex; 0 if the life is empty
--
-- ARGV: first, for all steps, for how many ms a record is kept, renewed by each step that writes. Then so many values for
-- each step, which begin with
--   1  token    of this attempt, unique to one run of a handler: 1 to 64 of A-Z a-z 0-9 _ -
--   2  id       the message id, kept for people
--   3  life     what tells this life of the message from the one before its last dead-lettering; may be empty
--   4  holder   the process that makes the step, kept for people
--   5  limit    charges at which the message is exhausted (retries + 1); 0: exhausted whatever its charges. An override
--               replaces it and a grant is added to it, unless it is 0; they raise it to 1001 at most
--   6  age      for how many ms this process has had the delivery, if it was not redelivered and this is its first run;
--               else -1
--
-- Reply: one for each step, in their order: an error, or { verdict, failures, crashes, limit
-- in force, fence, wait in ms, cause, reason }; cause and reason of the last attempt that was counted, empty unless EXHAUSTED
--
-- A record is one string: half the memory of a hash, and one command to read or to write. It begins with a line of
-- numbers and words, a space between, in this order (times are Redis TIME in ms; 0 and . stand for what is absent):
--   failures crashes     charges of each kind; their sum is held against the limit
--   starts               attempts that were let run by START; only grows
--   fence                of the last attempt that START let run, in µs since 1970 or a little more: each is greater than
--                        those before it, whatever the clock does; at most 2^53
--   suspect              1 once an attempt was found open: it may have killed its process
--   state binds          exhausted: a tombstone, which binds until `binds`; done: handled, the ack on its way; `binds` is
--                        ten minutes after either. With neither: 0, unless the message was handled, its ack was lost
--                        and no attempt was counted since. Then START does not exhaust it, however low the limit is
--   due wait             when the next attempt may begin, and for how many ms the last failure asked to wait. A clock that
--                        steps back would prolong the wait: what is left is never more than wait
--   first last cause     time of the first failed attempt that was counted, ms from there to the last, and why that one
--                        failed: the word that FAIL was given, or crashed
--   marker mode since    the attempt that runs now: its token, shared or exclusive, and from when
--   listed               when the record was last moved in the index; 0: it is not in there
--   limit                the last one but 0 that a step was given, before override and grant; exhausted: the one in force
--                        when the tombstone was written, before the grant
--   grant                tries an operator has given beyond the limit
--   tokens               ".", then ";token=kind" for each known attempt: f failure charged, c crash charged, e ended
--                        uncharged; the oldest are forgotten when they take more than 14 KiB
--   id life holder notes the length of each in bytes
-- After the line come id, life, holder, notes and the reason of the last charge, with nothing between. Notes say who
-- changed the record by hand: nothing, or one of the last grant, or one of the last reset, or these two in this order; then
-- one of the dead letter's replay or drop. A note is a line of its own, "grant", "reset" or "left", when, and the lengths of
-- who and why in bytes; then who and why.
--
-- A record takes at most 20 KiB: id, life, holder and who are 512 bytes each, why and the reason 1024, as the caller cuts them.

local BINDS = 600000 -- a reject that was lost comes back within this or is a new use of the id
local ENDED = 16     -- uncharged attempts remembered, so that a START of theirs that arrives late opens nothing
local MOVED = 1000   -- a record that was moved in the index within this stays where it is
local MOST = 1001    -- attempts that an override and a grant can allow: a record must not grow without a bound
local TOKENS = 14336 -- bytes of tokens, for the same reason
local LEFT = 'left %d+ 0 0\n$' -- the note that the dead letter was replayed or dropped

local index, override, dead = KEYS[1], KEYS[2], KEYS[3]
local ttl = tonumber(ARGV[1])
local width = (#ARGV - 1) / (#KEYS - 3)

local call, try = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]
local retries = call('HGET', override, 'max_retries') or ''
local overridden = #retries < 10 and string.match(retries, '^%-?%d+$') and math.min(MOST, math.max(1, tonumber(retries) + 1))
local sure -- whether the index is known to outlive the records
local replies = {}

for n = 4, #KEYS do

local record, arg = KEYS[n], (n - 4) * width + 1 -- arg: where the arguments of this step begin, less one
local token, id, life, holder = ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4]
local limit, age = tonumber(ARGV[arg + 5]), tonumber(ARGV[arg + 6])

local failures, crashes, starts, fence, suspect, state, binds, due, wait = 0, 0, 0, 0, '0', '.', 0, 0, 0
local first_at, last_at, cause, marker, mode, since, listed, tokens = 0, 0, '.', '.', '.', 0, 0, '.'
local configured, grant, notes, reason = 0, 0, '', ''

local kept = try('GET', record)
local held, noted -- where in it the holder and the notes begin
local foreign = type(kept) == 'table' and kept.err
if kept and not foreign then
  local _, ends, id_size, life_size, holder_size, notes_size
  _, ends, failures, crashes, starts, fence, suspect, state, binds, due, wait, first_at, last_at, cause, marker, mode, since, listed, configured, grant,
    tokens, id_size, life_size, holder_size, notes_size =
    string.find(kept, '^(%d+) (%d+) (%d+) (%d+) (%d) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%S+) (%d+) (%d+) (%d+) (%d+)\n')
  if ends then
    failures, crashes, starts, fence = tonumber(failures), tonumber(crashes), tonumber(starts), tonumber(fence)
    binds, due, wait, first_at, last_at = tonumber(binds), tonumber(due), tonumber(wait), tonumber(first_at), first_at + last_at
    due = math.min(due, now + wait) -- the clock was set back
    listed, grant = tonumber(listed), tonumber(grant)
    held = ends + id_size + life_size + 1
    noted = held + holder_size
    if notes_size ~= '0' then notes = string.sub(kept, noted, noted + notes_size - 1) end
    reason = string.sub(kept, noted + notes_size)
  else
    foreign = 'ERR not a record of strikes: ' .. record
  end
end

if foreign then -- of no concern to the others
  replies[n - 3] = redis.error_reply(foreign)
else

local base = limit -- without the grant
local given = configured -- by the steps before
if limit > 0 then
  configured = limit
  base = overridden or limit
  limit = math.min(MOST, base + grant)
end

-- whether the tombstone or the success is of an earlier use of the id: a delivery can be a new one only if it came after
local earlier = age >= 0 and binds - BINDS <= now - age

-- what this record knows of the token, and where that stands in tokens; nil if nothing
local _, known_at = string.find(tokens, ';' .. token .. '=', 1, true)
local known = known_at and string.sub(tokens, known_at + 1, known_at + 1)

-- what the step decides: its verdict; for how many ms the record is kept, in the index or not; nil: nothing changed; and
-- whether it buries the message
local verdict, live, indexed, buries

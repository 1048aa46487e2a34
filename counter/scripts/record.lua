-- The beginning of every script. For each step, a script reads a record (this file), decides (start.lua, begun.lua, fail.lua,
-- end.lua, moved.lua, own.lua, reset.lua, skip.lua or removed.lua), and writes and replies (save.lua):
--   cat record.lua fail.lua save.lua | redis-cli -x SCRIPT LOAD
-- docs/protocol.md says when a consumer sends which step, and what it does then.
-- One call takes several steps of one kind on one queue: starting a script costs half as much as a step.
-- The parts share variables instead of functions: creating a function costs Redis as much as a command, in every call.
--
-- One record is one generation of one message in one queue. It is a string, and exists only while something about the
-- message must be remembered. A first delivery that succeeds never touches it. Redis 6.0 or later, or Valkey.
--
-- KEYS. All have the hash tag {vhost/queue}, so that a call stays in one slot of a Cluster:
--   1  index       <prefix>:{<vhost>/<queue>}:index       sorted set of "<id hash>:<generation hash>" by the time at which the
--                                                         record expires, or up to a second earlier. It has no tombstones
--   2  override    <prefix>:{<vhost>/<queue>}:limit       hash that an operator may write. max_retries: an integer of at most
--                                                         9 characters, else ignored; a negative one counts as 0. max_age:
--                                                         ms, at most 13 digits, else ignored; 0: no message is too old.
--                                                         by, at, why: who set it, when and why (limit.lua)
--   3  tombstones  <prefix>:{<vhost>/<queue>}:tombstones  hash. count: tombstones written; since: time of the first;
--                                                         removed: dead letters that left their queue (removed.lua)
--   4  dead        <prefix>:{<vhost>/<queue>}:dead        sorted set like the index, of the tombstones whose dead letters were
--                                                         not removed. A renewed one stays in its place for an eighth of its TTL,
--                                                         so that it is in the order of the deaths
--   5  record      <prefix>:{<vhost>/<queue>}:r:<id hash>:<generation hash>
--   6 …            the records of the other steps, if any
--   <prefix>           strikes:1 by default
--   <vhost>, <queue>   percent-encoded, all bytes except A-Z a-z 0-9 - _ . ~
--   <id hash>          the first 16 bytes of SHA-256(message id), in lower-case hex
--   <generation hash>  the first 8 bytes of SHA-256(generation), in lower-case hex; 0 if the generation is empty
--
-- ARGV. The first argument is for all steps: how many ms a record is kept. Each step that writes renews it. Then every step
-- has the same number of arguments, which begin with these six:
--   1  token       of this attempt, unique to it: 1 to 64 of A-Z a-z 0-9 _ -; operator: the step is of no attempt
--   2  id          the message id, stored for people
--   3  generation  distinguishes this use of the id from those before its last dead-lettering; may be empty
--   4  holder      the process that takes the step, stored for people
--   5  limit       counted attempts at which the message is exhausted (retries + 1); 0: it is exhausted now. An override
--                  replaces a limit above 0, and the message's own limit (own.lua) replaces both
--   6  age         ms since this process received the delivery, if it is not redelivered and this is its first attempt; else -1
-- START and FAIL may be sent without their last arguments, which begin with max_age.
--
-- START and FAIL of a consumer with a later lane, or of a delivery that came through it, have one more argument at their end:
--   later       "later hop above lease body", a text with single spaces
--                 hop    the number in the header x-strikes-hop of the delivery; 0: it has none
--                 above  ms: a message that must wait for longer is moved; 0: none is
--                 lease  ms for which an open attempt at a moved message counts as running
--                 body   a fingerprint of the message, 1 to 32 of 0-9 a-f, to distinguish it from others with its id
--
-- START and FAIL of a consumer that keeps the order of its whole queue beyond the limit have the argument `hold` after their other
-- ones, before `later`. Instead of the tombstone they then write, in the same call, which message holds the queue, and pause it:
--   pause       <prefix>:{<vhost>/<queue>}:pause  as in control.lua. message: "<id hash>:<generation hash>" of the message that holds
--                                                 the queue; id, generation, cause, since: the same for people; only: 1 if the
--                                                 queue is paused for that message and for nothing else
-- An OWN, SKIP or RESET of that message, and an END that shows it was handled or not to be counted, remove these fields, and end the
-- pause if `only` is 1.
--
-- Reply: a list with one entry for each step, in their order. An entry is an error, or
--   { verdict, failures, crashes, limit in force, fence, wait in ms, cause, reason, double }
-- The reply to a step with `later` has one more number: the hop for the copy of a moved message.
-- cause and reason are those of the last counted attempt if the verdict is EXHAUSTED or HELD, else null. If the message holds its queue,
-- the cause of HELD is the one in `pause`, which a later failure does not change. double is 1 if this step is the first sign that two
-- messages have this id, else 0.
--
-- A record is one string: half the memory of a hash, and one command to read or write. It begins with a line of numbers and
-- words, separated by one space. Times are Redis TIME in ms; 0 and . mean absent. In this order:
--   failures crashes      failed attempts that were counted, of each kind; their sum is compared with the limit
--   starts                attempts that START let run; only grows
--   fence                 of the last attempt that START let run, in µs since 1970 or a little more. Each is greater than all
--                         before it, whatever the clock does; at most 2^53
--   suspect               1 once an attempt was found open: the message may have killed a process
--   state binds           exhausted: a tombstone, in force until `binds`; done: handled, its ack is under way; skip: an operator
--                         wants it dead-lettered at its next step. `binds` is ten minutes after the first two. Else it is 0,
--                         with one exception: the message was handled, its ack was lost, and no attempt was counted since. Then
--                         START does not exhaust it, however low the limit
--   due wait              when the next attempt may begin, and how many ms the last failure asked to wait. If the clock is set
--                         back, the remaining wait is at most `wait`
--   first last cause      time of the first counted attempt, ms from there to the last, and the cause of the last: the word
--                         that FAIL was given, or crashed; of the tombstone of a skip: skipped, and the operator's reason;
--                         of a tombstone whose counts are below the limit, because the message was too old: too-old
--   open mode since       the open attempt: its token; shared, reserved or isolated; and when START let it run. An isolated attempt is
--                         reserved from its START to its BEGUN: its handler has not begun, so its death counts no crash
--   listed                when the record was last moved in the index; of a tombstone in dead, when it was written (in one of an earlier
--                         version, or later); 0: it is in neither
--   limit                 the last limit above 0 that a step was given, before override and own. exhausted: the limit in
--                         force when the tombstone was written, before own
--   own                   the limit that an operator gave this message alone; 0: none. With it the message is never too old
--   firsts                1 once the first attempt at a delivery that is not redelivered has failed; 2 once two messages may have
--                         this id (fail.lua)
--   tokens                ".", then ";token=kind" for each known attempt: f counted as a failure, c counted as a crash, e ended
--                         and not counted. The oldest are forgotten when all take more than 14 KiB
--   id generation holder notes history  the length of each in bytes
--   moved                 only if the message was moved before: hop:top:until:mover:body. hop: the highest confirmed one. top: the
--                         highest one that a MOVE gave. until: the end of the lease of the move under way, or 0; mover: its
--                         token. body: the fingerprint of the message, x if two messages have this id
-- After the line come id, generation, holder, notes, history and the reason of the last counted attempt, without separators. Notes say
-- who changed the record by hand: the skip, or the last reset; then the removal of the dead letter; in this
-- order, each if there was one. A note is a line of its own, "skip", "reset" or "removed", the time, and the lengths
-- of who and why in bytes; then who and why, which must not end with a newline.
--
-- The history has the last 16 counted attempts, the newest first. Each begins with a newline and has four fields, separated by
-- tabs: the first letter of the cause and the ms since `first`; how long it ran in ms, or of a crash its token; the holder; and
-- the first line of the reason, which of a crash is empty unless a consumer saw it. A crash that turns out to be none leaves the
-- history. The number of an attempt follows from its place: the newest has failures + crashes.
--
-- A record takes at most 24 KiB. The caller cuts id, generation, holder and who to 512 bytes, why and the reason to 1024.

local BINDS = 600000 -- a lost reject is repeated within this; later the id is in a new use
local ENDED = 16     -- uncounted attempts that are remembered, so that their late START opens nothing
local MOVED = 1000   -- a record moves in the index once in this time; a tombstone in dead not before an eighth of its TTL
local MOST = 1001    -- attempts that override and own allow: a record must not grow without a bound
local TOKENS = 14336 -- bytes of tokens, for the same reason
local NOTED = 16     -- attempts in the history
local LINE = 120     -- bytes of a holder or a reason in the history
local LEASE = 30000  -- ms that a consumer has for a move, before another may repeat it
local HOPS = 2147483647 -- copies of a message
local PAUSED = 2592000000 -- ms that a pause, and the record of the message that holds a queue, are kept
local POLL = 10000   -- ms until a delivery asks again whether another attempt at its message still runs
local REMOVED = 'removed %d+ 0 0\n$' -- the note that the dead letter was replayed or dropped

local index, override, tombstones, dead = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local pause = string.sub(index, 1, -6) .. 'pause'
local ttl = tonumber(ARGV[1])
local width = (#ARGV - 1) / (#KEYS - 4)

local call, try = redis.call, redis.pcall
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local micros = time[1] * 1000000 + time[2]
local set_by = call('HMGET', override, 'max_retries', 'max_age')
local retries, max_age = set_by[1] or '', set_by[2] or ''
local aged = #max_age < 14 and string.match(max_age, '^%d+$') and tonumber(max_age)
local overridden = #retries < 10 and string.match(retries, '^%-?%d+$') and math.min(MOST, math.max(1, tonumber(retries) + 1))
local sure -- which of index and dead is known to outlive the records
local replies = {}

for n = 5, #KEYS do

local record, arg = KEYS[n], (n - 5) * width + 1 -- arg: the index before this step's arguments
local token, id, generation, holder = ARGV[arg + 1], ARGV[arg + 2], ARGV[arg + 3], ARGV[arg + 4]
local limit, age = tonumber(ARGV[arg + 5]), tonumber(ARGV[arg + 6])

local failures, crashes, starts, fence, suspect, state, binds, due, wait = 0, 0, 0, 0, '0', '.', 0, 0, 0
local first_at, last_at, cause, open, mode, since, listed, tokens = 0, 0, '.', '.', '.', 0, 0, '.'
local configured, own, firsts, notes, history, reason = 0, 0, 0, '', '', ''
local hop, top, until_at, mover, body = 0, 0, 0, '.', '.' -- of a moved message

local kept = try('GET', record)
local holder_at, notes_at -- where they begin in it
local foreign = type(kept) == 'table' and kept.err
if kept and not foreign then
  local _, ends, id_size, generation_size, holder_size, notes_size, history_size, moved
  _, ends, failures, crashes, starts, fence, suspect, state, binds, due, wait, first_at, last_at, cause, open, mode, since, listed, configured, own,
    firsts, tokens, id_size, generation_size, holder_size, notes_size, history_size, moved =
    string.find(kept, '^(%d+) (%d+) (%d+) (%d+) (%d) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+) (%d+) (%d+) (%d+) (%d+) (%d) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+)( ?[%w:_.-]*)\n')
  if ends and moved ~= '' then
    _, _, hop, top, until_at, mover, body = string.find(moved, '^ (%d+):(%d+):(%d+):([%w_.-]+):(%w+)$')
    hop, top, until_at = tonumber(hop), tonumber(top), tonumber(until_at)
    if not hop then ends = nil end
  end
  if ends then
    failures, crashes, starts, fence = tonumber(failures), tonumber(crashes), tonumber(starts), tonumber(fence)
    binds, due, wait, first_at, last_at = tonumber(binds), tonumber(due), tonumber(wait), tonumber(first_at), first_at + last_at
    due = math.min(due, now + wait) -- the clock was set back
    listed, own, firsts = tonumber(listed), tonumber(own), tonumber(firsts)
    holder_at = ends + id_size + generation_size + 1
    notes_at = holder_at + holder_size
    if notes_size ~= '0' then notes = string.sub(kept, notes_at, notes_at + notes_size - 1) end
    local history_at = notes_at + notes_size
    history = string.sub(kept, history_at, history_at + history_size - 1)
    reason = string.sub(kept, history_at + history_size)
  else
    foreign = 'ERR not a record of strikes: ' .. record
  end
end

if foreign then -- it fails this step and no other
  replies[n - 4] = redis.error_reply(foreign)
else

local was = state
local base = limit -- without own
local given = configured -- by the steps before
if limit > 0 then
  configured = limit
  base = overridden or limit
  limit = own > 0 and own or math.min(MOST, base)
end

-- whether the tombstone or the success belongs to an earlier use of the id: it was written before this delivery arrived
local earlier = age >= 0 and binds - BINDS <= now - age

-- what this record knows of the token, and the position in tokens; nil: nothing
local _, known_at = string.find(tokens, ';' .. token .. '=', 1, true)
local known = known_at and string.sub(tokens, known_at + 1, known_at + 1)

-- what the step decides: its verdict; how many ms the record is kept (nil: nothing changed); whether the
-- index has it, unless it is a tombstone; and whether it writes a tombstone
local verdict, live, indexed, exhausts
-- how many ms to wait instead of what is left; whether the state of a move changed; and whether the delivery is stale: its copy, or
-- that of an earlier hop, takes its place
local rest, changed, stale
-- what enters the history: the letter of the cause, how long the attempt ran or its token, and its holder; the token of a crash that
-- leaves it; and whether the step is the first sign of a second message with this id
local noted, lasted, noted_by, unnoted, double, saw
-- why the message holds its queue from now on; who ends that, if it did, and why
local held, freed_by, freed_why

local member = string.sub(record, #index - 2) -- what follows "r:"

local carried, above, lease, mark
if token ~= 'operator' then -- what ends with a why has no `later`
  carried, above, lease, mark = string.match(ARGV[arg + width], '^later (%d+) (%d+) (%d+) (%x+)$')
end
if carried then
  carried, above, lease = tonumber(carried), tonumber(above), tonumber(lease)
  if above == 0 then above = math.huge end
  if top > 0 and body ~= mark and body ~= 'x' then -- of another message: from now on no delivery counts as stale
    double = firsts < 2
    body, firsts, changed = 'x', 2, true
  end
  if carried > hop then -- it is the copy, which therefore exists
    if top == 0 then body = mark end
    hop, changed = carried, true
    if carried >= top then top, until_at, mover = carried, 0, '.' end
  end
  stale = body == mark and (carried < hop or carried > 0 and state == 'done')
end

-- The functions that every step needs. A script is this file, and then the step (start.lua, begun.lua, fail.lua or
-- end.lua), which ends with a call of take:
--   cat record.lua fail.lua | redis-cli -x SCRIPT LOAD
-- take reads the record of each step and decodes it, lets the step decide, writes the record and replies. One call
-- takes several steps of one kind on one queue, because starting a script costs half as much as a step.
-- docs/protocol.md says when a consumer sends which step, and how it acts on the reply. The rules are those of package
-- counter/rules, which has a function of the same name for each step.
--
-- One record is one generation of one message in one queue. It is a string, and exists only while something about the
-- message must be remembered. A first delivery that succeeds never touches it. Redis 6.0 or later, or Valkey.
--
-- KEYS. All have the hash tag {vhost/queue}, so that a call stays in one slot of a Cluster:
--   1  index       <prefix>:{<vhost>/<queue>}:index       sorted set of "<id hash>:<generation hash>" by the time at
--                                                         which the record expires, or up to a second earlier. It has
--                                                         the messages that have a counted attempt or an open one, or
--                                                         are skipped, but no tombstones
--   2  override    <prefix>:{<vhost>/<queue>}:limit       hash that an operator may write. max_retries: an integer of
--                                                         at most 9 characters, else ignored; a negative one counts
--                                                         as 0. max_age: ms, at most 13 digits, else ignored; 0: no
--                                                         message is too old. by, at, why: who set it, when and why
--   3  tombstones  <prefix>:{<vhost>/<queue>}:tombstones  hash. count: tombstones written; since: time of the first;
--                                                         removed: dead letters that left their queue
--   4  dead        <prefix>:{<vhost>/<queue>}:dead        sorted set like the index, of the tombstones whose dead
--                                                         letters were not removed. A renewed one stays in its place
--                                                         for an eighth of its TTL, so that it is in the order of the
--                                                         deaths
--   5  record      <prefix>:{<vhost>/<queue>}:r:<id hash>:<generation hash>
--   6 …            the records of the other steps, if any
--   <prefix>           strikes:1 by default
--   <vhost>, <queue>   percent-encoded, all bytes except A-Z a-z 0-9 - _ . ~
--   <id hash>          the first 16 bytes of SHA-256(message id), in lower-case hex
--   <generation hash>  the first 8 bytes of SHA-256(generation), in lower-case hex; 0 if the generation is empty
--
-- ARGV. The first argument is for all steps: how many ms a record is kept. Each step that writes renews it. Then
-- every step has the same number of arguments, which begin with these six:
--   1  token       of this attempt, unique to it: 1 to 64 of A-Z a-z 0-9 _ -
--   2  id          the message id, stored for people
--   3  generation  distinguishes this use of the id from those before its last dead-lettering; may be empty
--   4  consumer      the process that takes the step, stored for people
--   5  limit       counted attempts at which the message is exhausted (retries + 1); 0: it is exhausted now. An
--                  override replaces a limit above 0, and the message's own limit replaces both
--   6  age         ms since this process received the delivery, if it is not redelivered and this is its first
--                  attempt; else -1
-- START and FAIL may leave out max_age and the arguments after it, if the call has none of those that follow here.
--
-- START and FAIL of a consumer with delay queues, or of a delivery that came through it, have one more argument at
-- their end:
--   delay       "delay copy above lease body", a text with single spaces
--                 copy    the number in the header x-strikes-copy of the delivery; 0: it has none
--                 above  ms: a message that must wait for longer is moved; 0: none is
--                 lease  ms for which an open attempt at a moved message counts as running
--                 body   a fingerprint of the message, 1 to 32 of 0-9 a-f, to distinguish it from others with its id
--
-- A consumer that keeps the order of its whole queue beyond the limit sends the argument `hold` with START and FAIL,
-- after their other ones and before `delay`. Instead of writing the tombstone they then hold the message: it stays at
-- the head of the queue until an operator gives it a limit, skips or resets it. The consumer pauses the queue.
--
-- START and FAIL of a consumer with a breaker have one more argument after these, and before `delay`:
--   progress    "progress breaker patience began ended attempt failing", a text with single spaces
--                 breaker   messages that fail, with no success since, at which the queue is in doubt
--                 patience  ms for which a last allowed attempt does not count without a success elsewhere; 0: none
--                 began     ms since the latest begin of a success of this process; -1: none that is not reported yet
--                 ended     the same since its end
--                 attempt   FAIL: ms since the attempt began; -1: none
--                 failing   1 once so many messages failed in this process since its last success
-- They keep the breaker of the queue:
--   breaker     <prefix>:{<vhost>/<queue>}:breaker  string: a line of numbers, separated by one space; then the reason
--                                                   of the last message of the streak. Times are in ms. In this order:
--                 success  the latest known begin of a success, when the rest was written
--                 doubt    since when the queue is in doubt; 0: it is not
--                 open     since when the breaker is open; 0: it is closed
--                 closed   when it was closed last
--                 next     when the next permit may be given
--                 permits  given since it opened. If it is closed, 1: an operator closed it, and no success has
--                          followed. Then the first failure, whichever it is, begins a doubt
--                 count    until when an operator wants all failures counted
--                 awaited  until when a message waits for a success
--                 alike    so many of the streak, up to the last, have its reason apart from numbers
--                 streak   ".", then ";time=hash" for each message that failed for the first time, or in a last
--                          attempt that awaits a success, until a success that began later: the first 16 digits of
--                          its <id hash>
--
-- Reply: a list with one entry for each step, in their order. An entry is an error, or
--   { code, failures, crashes, limit in force, fence, wait in ms, cause, reason, double }
-- The reply to a step with `delay` has one more number: the number for the copy of a moved message. cause and reason
-- are those of the last counted attempt if the reply is EXHAUSTED or HELD, else null. double is 1 if this step is the
-- first sign that two messages have this id, else 0.
--
-- A record is one string: half the memory of a hash, and one command to read or write. It begins with a line of
-- numbers and words, separated by one space. Times are Redis TIME in ms; 0 and . mean absent. In this order:
--   failures crashes      failed attempts that were counted, of each kind; their sum is compared with the limit
--   starts                attempts that START let run; only grows
--   fence                 of the last attempt that START let run, in µs since 1970 or a little more. Each is greater
--                         than all before it, whatever the clock does; at most 2^53
--   suspect               1 once an attempt was found open: the message may have killed a process
--   state binds           exhausted: a tombstone, in force until `binds`; done: handled, its ack is under way; skip:
--                         an operator wants it dead-lettered at its next step; held: exhausted, but it holds its
--                         queue. `binds` is ten minutes after the first two. Else it is 0, with one exception: the
--                         message was handled, its ack was lost, and no attempt was counted since. Then START does
--                         not exhaust it, however low the limit
--   due wait              when the next attempt may begin, and how many ms the last failure asked to wait. If the
--                         clock is set back, the remaining wait is at most `wait`
--   first last cause      time of the first counted attempt, ms from there to the last, and the cause of the last:
--                         the word that FAIL was given, or crashed; of the tombstone of a skip: skipped, and the
--                         operator's reason; of an exhausted message whose counts are below the limit, because it was
--                         too old: too-old
--   open mode since       the open attempt: its token; shared, reserved or isolated; and when START let it run. An
--                         isolated attempt is reserved from its START to its BEGUN: its handler has not begun, so its
--                         death counts no crash
--   listed                when the record was last moved in the index; of a tombstone in dead, when it was written
--                         (in one of an earlier version, or later); 0: it is in neither
--   limit                 the last limit above 0 that a step was given, before override and own. exhausted: the
--                         limit in force when the tombstone was written, before own
--   own                   the limit that an operator gave this message alone; 0: none. With it the message is never
--                         too old
--   firsts                1 once the first attempt at a delivery that is not redelivered has failed; 2 once two
--                         messages may have this id (fail.lua)
--   tokens                ".", then ";token=kind" for each known attempt: f counted as a failure, c counted as a
--                         crash, e ended and not counted. The oldest are forgotten when all take more than 14 KiB
--   id generation consumer notes history  the length of each in bytes
--   moved                 only if the message was moved before: copy:top:until:mover:body. copy: the highest confirmed
--                         one. top: the highest one that a MOVE gave. until: the end of the lease of the move under
--                         way, or 0; mover: its token. body: the fingerprint of the message, x if two messages have
--                         this id
-- After the line come id, generation, consumer, notes, history and the reason of the last counted attempt, without
-- separators. Notes say who changed the record by hand: the last skip or reset; then the removal of the dead letter; in
-- this order, each if there was one. A note is a line of its own, "skip", "reset" or "removed", the time, and the
-- lengths of who and why in bytes; then who and why, which must not end with a newline.
--
-- The history has the last 16 counted attempts, the newest first. Each begins with a newline and has four fields,
-- separated by tabs: the first letter of the cause and the ms since `first`; how long it ran in ms, or of a crash its
-- token; the consumer; and the first line of the reason, which of a crash is empty unless a consumer saw it. A crash
-- that turns out to be none leaves the history. The number of an attempt follows from its place: the newest has
-- failures + crashes.
--
-- A record takes at most 24 KiB. The caller cuts id, generation, consumer and who to 512 bytes, why and the reason to
-- 1024.

local BINDS = 600000 -- a lost reject is repeated within this; later the id is in a new use
local ENDED = 16     -- uncounted attempts that are remembered, so that their late START opens nothing
local MOVED = 1000   -- a record moves in the index once in this time; a tombstone in dead: in an eighth of its TTL
local MOST = 1001    -- attempts that override and own allow: a record must not grow without a bound
local TOKENS = 14336 -- bytes of tokens, for the same reason
local NOTED = 16     -- attempts in the history
local LINE = 120     -- bytes of a consumer or a reason in the history
local LEASE = 30000  -- ms that a consumer has for a move, before another may repeat it
local COPIES = 2147483647 -- copies of a message
local PAUSED = 2592000000 -- ms that the record of a message that holds its queue is kept, as long as a pause
local POLL = 10000   -- ms until a delivery asks again whether another attempt at its message still runs
local REMOVED = 'removed %d+ 0 0\n$' -- the note that the dead letter was replayed or dropped

-- A call looks up these functions once. Without that, each step would look them up some fifty times.
local call, KEYS, ARGV, max, min = redis.call, KEYS, ARGV, math.max, math.min
local format, find, match, sub, gsub = string.format, string.find, string.match, string.sub, string.gsub

-- decode reads a record; nil: the text is none. All steps of a call use one table for it, because it takes long to
-- make a new one. Without a text it returns the record of a message that has none. Each field is text as it is stored,
-- also a number, because most fields are written as they were read. So add 0 to compare one, and format one that
-- changes. Only copy, top and lease, of a moved message, are numbers. last is the ms from first. was is the state that
-- is stored. noted is the entry that a step puts in front of the history.
local record = {}
local function decode(text)
  local r = record
  r.noted = ''
  if r.top then r.copy, r.top, r.lease, r.mover, r.body = nil, nil, nil, nil, nil end
  if not text then
    r.failures, r.crashes, r.starts, r.fence, r.suspect, r.state, r.was = '0', '0', '0', '0', '0', '.', nil
    r.binds, r.due, r.wait, r.first, r.last, r.cause = '0', '0', '0', '0', '0', '.'
    r.open, r.mode, r.since, r.listed, r.limit, r.own, r.firsts, r.tokens = '.', '.', '0', '0', '0', '0', '0', '.'
    r.consumer, r.notes, r.history, r.reason, r.moved = '', '', '', '', ''
    return r
  end
  local _, ends, failures, crashes, starts, fence, suspect, state, binds, due, wait, first, last, cause, open, mode,
    since, listed, limit, own, firsts, tokens, id, generation, consumer, notes, history, moved = find(text,
    '^(%d+) (%d+) (%d+) (%d+) (%d) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+) (%S+) (%S+) (%S+) (%d+) ' ..
    '(%d+) (%d+) (%d+) (%d) (%S+) (%d+) (%d+) (%d+) (%d+) (%d+)( ?[%w:_.-]*)\n')
  if not ends then return nil end
  ends = ends + id + generation
  consumer = ends + consumer
  notes = consumer + notes
  history = notes + history
  r.failures, r.crashes, r.starts, r.fence, r.suspect = failures, crashes, starts, fence, suspect
  r.state, r.was, r.binds, r.due, r.wait, r.first, r.last, r.cause = state, state, binds, due, wait, first, last, cause
  r.open, r.mode, r.since, r.listed, r.limit, r.own = open, mode, since, listed, limit, own
  r.firsts, r.tokens, r.consumer = firsts, tokens, sub(text, ends + 1, consumer)
  r.notes = sub(text, consumer + 1, notes)
  r.history, r.reason, r.moved = sub(text, notes + 1, history), sub(text, history + 1), moved
  if moved ~= '' then
    local _, _, copy, top, lease, mover, body = find(moved, '^ (%d+):(%d+):(%d+):([%w_.-]+):(%w+)$')
    if not copy then return nil end
    r.copy, r.top, r.lease, r.mover, r.body = copy + 0, top + 0, lease + 0, mover, body
  end
  return r
end

-- encode writes a record.
local function encode(r, id, generation)
  if r.top then r.moved = format(' %d:%d:%d:%s:%s', r.copy, r.top, r.lease, r.mover, r.body) end
  return r.failures .. ' ' .. r.crashes .. ' ' .. r.starts .. ' ' .. r.fence .. ' ' .. r.suspect .. ' ' ..
    r.state .. ' ' .. r.binds .. ' ' .. r.due .. ' ' .. r.wait .. ' ' .. r.first .. ' ' .. r.last .. ' ' ..
    r.cause .. ' ' .. r.open .. ' ' .. r.mode .. ' ' .. r.since .. ' ' .. r.listed .. ' ' .. r.limit .. ' ' ..
    r.own .. ' ' .. r.firsts .. ' ' .. r.tokens ..
    format(' %d %d %d %d %d', #id, #generation, #r.consumer, #r.notes, #r.noted + #r.history) ..
    r.moved .. '\n' ..
    id .. generation .. r.consumer .. r.notes .. r.noted .. r.history .. r.reason
end

-- count keeps the cause and the time of an attempt that counts, and puts it in front of the history. lasted is how
-- long it ran, or of a crash its token; note is its reason there.
local function count(r, q, cause, reason, lasted, consumer, note)
  if r.first == '0' then
    r.first, r.last = q.at, '0'
  else
    r.last = format('%d', max(0, q.now - r.first))
  end
  r.cause, r.reason = cause, reason
  if consumer ~= q.consumer then -- most steps of a call have one consumer
    q.consumer, q.line = consumer, sub(gsub(consumer, '[\t\r\n]', ' '), 1, LINE)
  end
  if #note >= LINE or find(note, '\t', 1, true) or find(note, '\r', 1, true) or
    find(note, '\n', 1, true) then
    note = sub(gsub(match(note, '[^\r\n]+') or '', '\t', ' '), 1, LINE)
    if #note == LINE then note = gsub(note, '[\192-\255][\128-\191]*$', '') end -- no part of a character
  end
  r.noted = '\n' .. sub(cause, 1, 1) .. r.last .. '\t' .. lasted .. '\t' .. q.line .. '\t' .. note
  if r.failures + r.crashes > NOTED then
    r.history = match(r.history, '^' .. string.rep('\n[^\n]*', NOTED - 1)) or r.history
  end
end

-- save bounds the record, puts it in the set where it belongs, and writes it. The index has the records that an
-- operator may want to see, and dead the tombstones whose dead letters were not removed.
local function save(r, s, q, keep)
  if s.given ~= '0' and r.state ~= 'exhausted' then r.limit = s.given end
  if find(r.tokens, '=e', 1, true) then -- forget the oldest uncounted attempts
    local _, ended = gsub(r.tokens, '=e', '')
    if ended > ENDED then r.tokens = gsub(r.tokens, ';[%w_-]+=e', '', ended - ENDED) end
  end
  if #r.tokens > TOKENS then r.tokens = '.' .. match(r.tokens, ';.*', #r.tokens - TOKENS + 2) end

  local now, set, moves = q.now, nil, MOVED
  if r.state == 'exhausted' then
    moves = s.died and 0 or q.ttl / 8
    if not find(r.notes, REMOVED) then set = q.dead end
  elseif r.state == 'skip' or r.state ~= 'done' and (r.failures + r.crashes > 0 or r.open ~= '.') then
    set = q.index
  end
  local former = (r.listed ~= '0' or not r.was) and q.index -- an expired record may be in it
  if r.listed ~= '0' and r.was == 'exhausted' then former = q.dead end
  if former and former ~= set then
    call('ZREM', former, sub(s.key, #q.index - 2))
    r.listed = '0'
  end
  if set and (math.abs(now - r.listed) >= moves or keep > q.ttl) then -- a lease may outlast the entry and its set
    call('ZADD', set, keep == q.ttl and q.expires or format('%d', now + keep), sub(s.key, #q.index - 2))
    if set == q.index or s.died or r.listed == '0' then r.listed = q.at end -- of a tombstone it stays the time of death
    if (q.outlives ~= set or keep > q.ttl) and call('PTTL', set) < keep * 1.25 then
      call('PEXPIRE', set, 2 * keep) -- rarely again
    end
    q.outlives = set
  end
  if set and (s.died or not r.was) and now % 8 == 0 then -- one new entry in eight removes up to 24 expired ones
    local past = call('ZRANGEBYSCORE', set, '-inf', now, 'LIMIT', 0, 24)
    if #past > 0 then call('ZREM', set, unpack(past)) end
  end
  call('SET', s.key, encode(r, ARGV[s.at + 2], ARGV[s.at + 3]), 'PX', keep == q.ttl and ARGV[1] or keep)
end

-- hold has a message hold its queue for a cause.
local function hold(r, cause)
  r.state, r.cause = 'held', cause
  return 'HELD'
end

-- exhaust writes the tombstone.
local function exhaust(r, s, q)
  if r.state == 'skip' then -- the note is the first
    local _, ends, by, why = find(r.notes, '^skip %d+ (%d+) (%d+)\n')
    if r.first == '0' then r.first = q.at end
    r.last = format('%d', max(0, q.now - r.first))
    r.cause, r.reason = 'skipped', sub(r.notes, ends + by + 1, ends + by + why)
  end
  r.state, r.binds, s.died = 'exhausted', format('%d', q.now + BINDS), true
  r.limit = s.given ~= '0' and s.base or q.limit or r.limit
  r.limit = format('%d', r.limit)
  r.notes = gsub(r.notes, REMOVED, '') -- of the dead letter before
  if call('HINCRBY', q.tombstones, 'count', 1) == 1 then call('HSET', q.tombstones, 'since', q.now) end
  call('PEXPIRE', q.tombstones, 2 * q.ttl)
  return 'EXHAUSTED'
end

-- confirm notes that a copy exists.
local function confirm(r, copy)
  r.copy = copy
  if copy >= r.top then r.top, r.lease, r.mover = copy, 0, '.' end
end

-- copies compares a delivery that has the argument `delay` with the copies of its message.
local function copies(r, s, delay)
  local copy, above, lease, body = match(delay, '^delay (%d+) (%d+) (%d+) (%x+)$')
  if not copy then error('ERR not a delay: ' .. delay) end
  s.copy, s.above, s.lease, s.body = copy + 0, above + 0, lease + 0, body
  if s.above == 0 then s.above = math.huge end
  -- of another message: from now on no delivery counts as superseded
  if r.top and r.body ~= body and r.body ~= 'x' then
    s.double = r.firsts ~= '2'
    r.body, r.firsts, s.changed = 'x', '2', true
  end
  if s.copy > (r.copy or 0) then -- it is the copy, which therefore exists
    if not r.top then r.top, r.lease, r.mover, r.body = 0, 0, '.', body end
    confirm(r, s.copy)
    s.changed = true
  end
  s.superseded = r.body == body and (s.copy < r.copy or s.copy > 0 and r.state == 'done')
end

-- stay ends a move that has become too late.
local function stay(r, s)
  if r.top and r.lease > 0 then r.lease, r.mover, s.changed = 0, '.', true end
end

-- rarely returns the functions that few steps need. Creating a function costs a tenth of a command, in every call, so
-- these are created once a call needs one: rarely().renew(r, s).
local created
local function rarely()
  if created then return created end
  local f = {}
  created = f

  -- clear empties the record, except for its consumer, fence, starts, limit and the known attempts, which count no
  -- more. So their late steps count nothing.
  function f.clear(r)
    r.failures, r.crashes, r.due, r.wait, r.suspect, r.state, r.binds = '0', '0', '0', '0', '0', '.', '0'
    r.first, r.last, r.cause, r.reason, r.own, r.firsts = '0', '0', '.', '', '0', '0'
    r.notes, r.noted, r.history = '', '', ''
    r.open, r.mode = '.', '.'
    r.tokens = gsub(r.tokens, '=[fc]', '=e')
  end

  -- renew clears the record for a new use of the id.
  function f.renew(r, s)
    f.clear(r)
    s.limit = s.base
    s.superseded, s.double = false, false
    if r.top then r.body = 'x' end
  end

  -- turn changes the kind of a known attempt. A crash that was none leaves the history.
  function f.turn(r, s, kind)
    r.tokens = sub(r.tokens, 1, s.known_at) .. kind .. sub(r.tokens, s.known_at + 2)
    if s.known == 'c' then
      r.crashes = format('%d', r.crashes - 1)
      r.history = gsub(r.history, '\nc%d+\t' .. gsub(s.token, '%-', '%%-') .. '\t[^\n]*', '')
    end
  end

  -- uncrash takes back that the attempt was counted as a crash: nothing is counted.
  function f.uncrash(r, s)
    f.turn(r, s, 'e')
    if r.state == 'held' and r.cause == 'crashed' then r.state = '.' end
    if r.failures + r.crashes == 0 and r.state ~= 'exhausted' then -- its age begins anew
      r.first, r.last, r.cause, r.reason = '0', '0', '.', ''
    end
  end

  -- breaker reads the breaker of the queue, and notes the successes of the process in it. It is the function Learn of
  -- package counter/rules. If the clock was set back behind the message's last failure, that seems to be now.
  function f.breaker(r, s, q, progress)
    if r.first + r.last > q.now then r.first = format('%d', q.now - r.last) end
    local now, b = q.now, { key = sub(KEYS[1], 1, -6) .. 'breaker' }
    local limit, patience, began, ended, attempt, failing =
      match(progress, '^progress (%d+) (%d+) (%-?%d+) (%-?%d+) (%-?%d+) ([01])$')
    if not limit then error('ERR not a progress: ' .. progress) end
    began = began + 0 >= 0 and now - began or 0
    ended = ended + 0 >= 0 and now - ended or 0
    b.limit, b.failing = limit + 0, failing == '1'
    b.success, b.doubt, b.open, b.closed, b.next, b.permits, b.count, b.awaited, b.alike, b.streak, b.reason =
      match(call('GET', b.key) or '', '^(%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) %.(%S*)\n(.*)$')
    if not b.reason then
      b.success, b.doubt, b.open, b.closed, b.next, b.permits, b.count, b.awaited, b.alike = 0, 0, 0, 0, 0, 0, 0, 0, 0
      b.streak, b.reason = '', ''
    end
    b.changed = b.doubt + 0 > now or b.open + 0 > now or b.closed + 0 > now or b.next + 0 > now + 3000 or
      b.count + 0 > now + 86400000
    for _, past in ipairs({ 'success', 'doubt', 'open', 'closed' }) do b[past] = min(b[past] + 0, now) end
    b.next, b.permits, b.alike = min(b.next + 0, now + 3000), b.permits + 0, b.alike + 0
    b.count, b.awaited = min(b.count + 0, now + 86400000), b.awaited + 0
    b.early = attempt + 0 >= 0 and now - attempt < b.closed -- the attempt began before the closing

    if began > b.success then
      b.success, b.changed = began, b.changed or b.awaited > now or patience + 0 > 0
    end
    if b.open == 0 and b.permits > 0 and b.success > b.closed then b.permits, b.changed = 0, true end
    local failed, closed, over = 0, b.open == 0, false
    local calm = closed and b.doubt > 0 and ended > b.doubt
    b.streak = gsub(b.streak, ';(%d+)(=%x+)', function(at, message)
      at = min(at + 0, now)
      if closed and not calm and b.success > at then
        over = true
        return ''
      end
      failed = failed + 1
      return format(';%d', at) .. message
    end)
    b.failed = failed
    if not closed then
      if b.success > b.open then
        b.streak, b.failed, b.doubt, b.open, b.closed, b.next, b.permits, b.changed = '', 0, 0, 0, now, 0, 0, true
        b.early = attempt + 0 >= 0 and now - attempt < now
      end
    elseif calm then
      b.streak, b.failed, b.doubt, b.permits, b.changed = '', 0, 0, 0, true
    elseif over then
      b.doubt, b.changed = 0, true
    elseif b.doubt > 0 and now - b.doubt >= 2000 then
      b.open, b.next, b.permits, b.changed = now, now + 1000, 0, true
    end
    b.resumed = b.open == 0 and b.permits > 0
    -- an outage may use up the last allowed attempt: no success is known that began after the message's last failure
    failed = r.failures + r.crashes
    b.impatient = patience + 0 > 0 and failed > 0 and failed + 1 >= s.limit and b.success <= r.first + r.last and
      now - r.first < patience + 0 and b.count <= now
    return b
  end

  function f.keep(b)
    call('SET', b.key, format('%d %d %d %d %d %d %d %d %d .', b.success, b.doubt, b.open, b.closed, b.next,
      b.permits, b.count, b.awaited, b.alike) .. b.streak .. '\n' .. b.reason, 'PX', ARGV[1])
  end

  -- judge tells the breaker of the process's successes, and of the failure if it is fresh. It reports whether the
  -- breaker keeps that from being counted.
  function f.judge(r, s, q, progress, fresh)
    local b, cause, reason = f.breaker(r, s, q, progress), ARGV[s.at + 8], ARGV[s.at + 9]
    local troubled = b.failing or b.doubt > 0 or b.open > 0 or b.early
    local uncounted = fresh and cause ~= 'rejected' and
      (cause == 'not-counted' or b.count <= q.now and troubled or b.impatient)
    local message = '=' .. sub(s.key, #q.index - 2, #q.index + 13)
    local first = (r.failures + r.crashes == 0 or b.resumed) and (not uncounted or cause == 'not-counted')
    -- If messages that wait for a success fill the prefetch, no other message can fail. Their failures open the
    -- breaker then, so that others are fetched.
    if fresh and cause ~= 'rejected' and (first or b.impatient) and not troubled and b.count <= q.now and
      not find(b.streak, message, 1, true) then
      reason = sub(match(reason, '[^\r\n]+') or '', 1, LINE)
      local same = b.failed > 0 and gsub(b.reason, '%d+', '0') == gsub(reason, '%d+', '0')
      b.alike, b.reason = (same and min(b.alike, b.failed) or 0) + 1, reason
      b.streak, b.failed, b.changed = b.streak .. format(';%d', q.now) .. message, b.failed + 1, true
      if b.failed >= b.limit or b.resumed then b.doubt = q.now end
    end
    if b.changed then f.keep(b) end
    return uncounted
  end

  -- outage is the time in ms from a message's first failure to the last closing of the breaker. max_age leaves it out.
  function f.outage(r, s, q, progress)
    return max(0, f.breaker(r, s, q, progress).closed - r.first)
  end

  -- awaits reports whether the last allowed attempt has to wait for a success of another message.
  function f.awaits(r, s, q, progress)
    local b, since = f.breaker(r, s, q, progress), q.now - max(r.due, r.first + r.last)
    if not b.impatient or since >= 30000 then return false end
    s.rest, b.awaited = min(1000, 30000 - since), q.now + 2000
    f.keep(b)
    return true
  end

  -- move asks the consumer to move the message, which has to wait for long: always if begins is true, else only if a
  -- move is under way. Otherwise the reply stays.
  function f.move(r, s, q, code, begins)
    local lease = r.lease or 0
    if lease > q.now and r.mover ~= s.token then
      if lease > q.now + LEASE then -- the clock was set back
        lease, r.lease, s.changed = q.now + LEASE, q.now + LEASE, true
      end
      s.rest = lease - q.now
      return code
    end
    if lease == 0 and not begins then return code end
    if not r.top then r.copy, r.top, r.body = 0, 0, s.body end
    if lease == 0 then r.top = r.top + 1 end
    r.lease, r.mover, s.changed = q.now + LEASE, s.token, true
    return 'MOVE'
  end

  return f
end

-- take takes the steps of a call, one after the other, and returns their replies. decide gets a record, a step and
-- the queue, changes the record, and returns the reply and how many ms the record is kept; nil: it changed nothing.
local function take(decide)
  local time, set = call('TIME'), call('HMGET', KEYS[2], 'max_retries', 'max_age')
  local now, retries, age = time[1] * 1000 + math.floor(time[2] / 1000), set[1] or '', set[2] or ''
  local q = { -- shared by the steps. at is now as text; outlives will be the set that is known to outlive its records
    now = now, at = format('%d', now), time = time, ttl = tonumber(ARGV[1]), expires = format('%d', now + ARGV[1]),
    index = KEYS[1], tombstones = KEYS[3], dead = KEYS[4],
    limit = #retries < 10 and match(retries, '^%-?%d+$') and min(MOST, max(1, retries + 1)),
    max_age = #age < 14 and match(age, '^%d+$') and tonumber(age),
  }
  local replies, width = {}, (#ARGV - 1) / (#KEYS - 4)
  local s = { width = width } -- one table for all steps, as decode has for their records
  for n = 5, #KEYS do
    local text, at = redis.pcall('GET', KEYS[n]), (n - 5) * width + 1
    local r = type(text) ~= 'table' and decode(text)
    if r then
      local token, given = ARGV[at + 1], ARGV[at + 5]
      local base = given ~= '0' and q.limit or given + 0
      local limit = r.own ~= '0' and r.own + 0 or min(MOST, base)
      local _, known_at
      if r.tokens ~= '.' then _, known_at = find(r.tokens, ';' .. token .. '=', 1, true) end
      -- limit is in force, and base without the message's own; known is the kind of the attempt
      s.key, s.at, s.token, s.consumer, s.given, s.base = KEYS[n], at, token, ARGV[at + 4], given, base
      s.limit, s.age, s.known_at = given ~= '0' and limit or 0, ARGV[at + 6] + 0, known_at
      s.known = known_at and sub(r.tokens, known_at + 1, known_at + 1)
      s.superseded, s.double, s.changed, s.rest, s.died = false, false, false, false, false
      if s.copy then s.copy, s.body = nil, nil end
      local code, keep = decide(r, s, q)
      local left, wait = r.due - now, r.wait + 0
      if left > wait then -- the clock was set back
        left, r.due = wait, format('%d', now + wait)
      end
      if keep then save(r, s, q, keep) end
      local cause, reason = false, false -- no other reply needs the reason, which may be long
      if code == 'EXHAUSTED' or code == 'HELD' then cause, reason = r.cause ~= '.' and r.cause, r.reason end
      replies[n - 4] = { code, r.failures + 0, r.crashes + 0, s.limit, r.fence + 0, s.rest or max(0, left),
        cause, reason, s.double and 1 or 0, s.copy and (r.top or 0) }
    else -- it fails this step and no other
      local why = type(text) == 'table' and text.err or 'ERR not a record of strikes: ' .. KEYS[n]
      replies[n - 4] = redis.error_reply(why)
    end
  end
  return replies
end

-- FAIL: the handler failed. It counts this attempt once, however often and however late it arrives.
--
-- ARGV after the common six:
--   7  wait    ms until the next attempt may begin
--   8  cause   why it failed: failed, panicked, timed-out or rejected
--   9  reason  the same for people
--   10 lasted  ms that the handler ran
--   11 max_age ms, as for START: a message that is too old after this failure is exhausted
--   12 at_most counted attempts at which a message with this failure is exhausted; 0 or absent: no such limit. It only lowers the
--              limit or its override, for this step; the message's own limit replaces it
--   13 hold    as for START
--
-- Verdicts:
--   REQUEUE    hold the delivery for the wait, then nack it with requeue (or START it again in place)
--   EXHAUSTED  nack it without requeue. The tombstone is written before this reply, so a lost nack is repeated when the
--              message is redelivered, without running the handler again
--
--   HELD       (with `hold` only) as for START
--   MOVE       (with `later` only) publish a copy with the hop of the reply, then MOVED, then ack
--   STALE      (with `later` only) ack it: its copy takes its place
--
-- The message may be one of two with the same id if the first attempt at a delivery that is not redelivered fails, and this
-- generation has such a failure already, or had a counted attempt before this delivery arrived. RabbitMQ redelivers some messages
-- without saying so (a classic queue of 4.3 after a restart), and other tools may publish a message again.

local asked, kind, why = tonumber(ARGV[arg + 7]), ARGV[arg + 8], ARGV[arg + 9]
local oldest = aged or width > 10 and tonumber(ARGV[arg + 11]) or 0
local holds = width > 12 and ARGV[arg + 13] == 'hold'
local most = width > 11 and tonumber(ARGV[arg + 12]) or 0
if most > 0 and most < base and not (known == 'f' and state == '.') then -- a repetition does not judge what was counted since
  base = most
  limit = own > 0 and own or base
end

if top > 0 and not carried then body, changed = 'x', true end -- what this consumer has is not known

if not known and (state == 'exhausted' or state == 'done') and earlier then -- this is a new use of the id
  failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
  first_at, last_at, cause, reason, open, mode = 0, 0, '.', '', '.', '.'
  limit, own, notes, history, firsts = base, 0, '', '', 0
  if top > 0 then body, stale, double = 'x', false, false end
  tokens = string.gsub(tokens, '=[fc]', '=e') -- they stay, so that their late steps are not counted here
end

local counts = false
local over = stale and state == 'done' -- by another copy
if known == 'c' then -- its process was taken for dead: the same count, now with the true cause
  counts, unnoted = true, token
  crashes = crashes - 1
  tokens = string.sub(tokens, 1, known_at) .. 'f' .. string.sub(tokens, known_at + 2)
elseif not known and state ~= 'exhausted' and not over then
  counts = true
  tokens = tokens .. ';' .. token .. '=f'
  if age >= 0 and state ~= 'done' and firsts < 2 then
    double = firsts == 1 or failures + crashes > 0 and first_at <= now - age
    firsts = double and 2 or 1
  end
end

if counts or open == token then live, indexed = ttl, not over end
if counts then
  failures = failures + 1
  if state == 'done' and not over then state = '.' end
  if state ~= 'exhausted' and not over then binds = 0 end
  if first_at == 0 then first_at = now end
  last_at, cause, reason, due, wait = now, kind, why, now + asked, asked
  noted, lasted, noted_by = string.sub(kind, 1, 1), ARGV[arg + 10], holder
end
if open == token then open, mode = '.', '.' end

verdict = 'REQUEUE'
if stale then -- the copy is dead-lettered instead
  verdict = 'STALE'
elseif state == 'exhausted' then
  verdict = 'EXHAUSTED'
elseif state == 'skip' then
  verdict = 'EXHAUSTED'
  live, indexed, exhausts = ttl, true, true
elseif failures + crashes >= limit then -- also if our reply was lost and the limit is lower now
  verdict = 'EXHAUSTED'
  if holds then -- it is not dead-lettered, even if another step has decided about it
    verdict = 'HELD'
    if known ~= 'e' and state == '.' then held = cause end
  elseif known ~= 'e' and state == '.' then
    live, indexed, exhausts = ttl, true, true
  end
elseif known ~= 'e' and state == '.' and oldest > 0 and last_at - first_at > oldest and own == 0 then
  if holds then
    verdict, held = 'HELD', 'too-old'
  else
    verdict, cause = 'EXHAUSTED', 'too-old'
    live, indexed, exhausts = ttl, true, true
  end
end

if carried and verdict == 'REQUEUE' and top < HOPS then
  if due - now <= above then
    if until_at > 0 then until_at, mover, changed = 0, '.', true end -- too late for a move
  elseif until_at > now and mover ~= token then
    rest = math.min(until_at - now, LEASE)
  elseif until_at > 0 or counts and was ~= 'done' then
    verdict = 'MOVE'
    if until_at == 0 then top = top + 1 end
    if body == '.' then body = mark end
    until_at, mover, changed = now + LEASE, token, true
  end
end
if changed and not live then live, indexed = ttl, state ~= 'done' end

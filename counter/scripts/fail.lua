-- FAIL: the handler failed. It counts this attempt once, however often and however late it arrives.
--
-- ARGV after the common six:
--   7  wait    ms until the next attempt may begin
--   8  cause   why it failed: failed, panicked, timed-out or rejected. Or crashed, if the message ran isolated and
--              another process that did its work died. Or, with `progress` only, not-counted: the handler could not
--              work, and the message is not the reason
--   9  reason  the same for people
--   10 lasted  ms that the handler ran
--   11 max_age ms, as for START: a message that is too old after this failure is exhausted
--   12 at_most counted attempts at which a message with this failure is exhausted; 0 or absent: no such limit. It
--              only lowers the limit or its override, for this step; the message's own limit replaces it
--   13 hold    as for START
--   14 progress  as for START; 13 without hold
--
-- Replies:
--   REQUEUE    hold the delivery for the wait, then nack it with requeue (or START it again in place)
--   EXHAUSTED  nack it without requeue. The tombstone is written before this reply, so a lost nack is repeated when the
--              message is redelivered, without running the handler again
--
--   HELD       (with `hold` only) as for START
--   UNCOUNTED  (with `progress` only) nothing is counted: let the delivery wait for its next attempt, which the breaker
--              may delay. A repeated FAIL gets it again, also if the breaker has changed
--   MOVE       (with `delay` only) publish a copy with the copy number of the reply, then MOVED, then ack
--   SUPERSEDED      (with `delay` only) ack it: its copy takes its place
--
-- The message may be one of two with the same id if the first attempt at a delivery that is not redelivered fails,
-- and this generation has such a failure already, or had a counted attempt before this delivery arrived. RabbitMQ
-- redelivers some messages without saying so (a classic queue of 4.3 after a restart), and other tools may publish a
-- message again.

return take(function(r, s, q)
  local at, width, now, known, was = s.at, s.width, q.now, s.known, r.state
  local oldest = q.max_age or width > 10 and ARGV[at + 11] ~= '0' and tonumber(ARGV[at + 11]) or 0
  local most = width > 11 and ARGV[at + 12] ~= '0' and tonumber(ARGV[at + 12]) or 0
  local holds_queue = width > 12 and ARGV[at + 13] == 'hold'
  local progress = width > 12 and match(ARGV[at + (holds_queue and width > 13 and 14 or 13)], '^progress .*')
  -- A repeated FAIL would judge failures that were counted since.
  if most > 0 and most < s.base and not (known == 'f' and was == '.') then
    s.base, s.limit = most, r.own ~= '0' and r.own + 0 or most
  end
  local delay = width > 12 and match(ARGV[at + width], '^delay .*')
  if delay then
    copies(r, s, delay)
  elseif r.top then
    r.body, s.changed = 'x', true -- the body that this consumer has is not known
  end

  if not known and (was == 'exhausted' or was == 'done') and s.age >= 0 and r.binds - BINDS <= now - s.age then
    rarely().renew(r, s) -- the delivery arrived after that: this is a new use of the id
  end
  local over = s.superseded and r.state == 'done' -- another copy was handled
  local fresh = not known and r.state ~= 'exhausted' and not over
  local stops = progress and rarely().judge(r, s, q, progress, fresh)
  local counts, saves, uncounted = false, r.open == s.token, stops or progress and known == 'e'
  if known == 'c' and ARGV[at + 8] == 'not-counted' then -- its process was taken for dead
    rarely().uncrash(r, s)
    saves, uncounted = true, true
  elseif known == 'c' then -- the same count, now with the true cause
    rarely().turn(r, s, 'f')
    counts = true
  elseif stops then
    r.tokens, saves = r.tokens .. ';' .. s.token .. '=e', true
  elseif fresh then
    if s.age >= 0 and r.state ~= 'done' and r.firsts ~= '2' then -- is it a sign of a second message with this id?
      local double = r.firsts == '1' or r.failures + r.crashes > 0 and r.first + 0 <= now - s.age
      r.firsts, s.double = double and '2' or '1', s.double or double
    end
    r.tokens = r.tokens .. ';' .. s.token .. '=f'
    counts = true
  end
  if counts then
    saves = true
    r.failures = format('%d', r.failures + 1)
    if r.state == 'done' and not over then r.state = '.' end
    if r.state ~= 'exhausted' and not over then r.binds = '0' end
    local lasted = ARGV[at + 8] == 'crashed' and s.token or ARGV[at + 10]
    count(r, q, ARGV[at + 8], ARGV[at + 9], lasted, s.consumer, ARGV[at + 9])
    r.due, r.wait = format('%d', now + ARGV[at + 7]), ARGV[at + 7]
  end
  if r.open == s.token then r.open, r.mode = '.', '.' end

  local failed = r.failures + r.crashes
  local spent, decides = failed >= s.limit, known ~= 'e' and r.state == '.'
  if progress and oldest > 0 and decides then oldest = oldest + rarely().outage(r, s, q, progress) end
  local old = decides and not spent and oldest > 0 and r.last + 0 > oldest and failed > 0 and r.own == '0'
  local code = 'REQUEUE'
  if s.superseded then -- the copy is dead-lettered instead
    code = 'SUPERSEDED'
  elseif r.state == 'exhausted' then
    code = 'EXHAUSTED'
  elseif r.state == 'skip' or r.state == 'held' and not holds_queue then
    code, saves = exhaust(r, s, q), true
  elseif uncounted then
    code = 'UNCOUNTED'
  elseif r.state == 'held' then
    code = 'HELD'
  elseif holds_queue and old then
    code, saves = hold(r, 'too-old'), true
  elseif holds_queue and spent and decides then
    code, saves = hold(r, r.cause), true
  elseif holds_queue and spent then -- it is not dead-lettered, even if another step has decided about it
    code = 'HELD'
  elseif old then
    r.cause = 'too-old'
    code, saves = exhaust(r, s, q), true
  elseif spent and decides then
    code, saves = exhaust(r, s, q), true
  elseif spent then -- also if our reply was lost and the limit is lower now
    code = 'EXHAUSTED'
  elseif s.copy and (r.top or 0) < COPIES then
    if min(r.due - now, r.wait + 0) <= s.above then
      stay(r, s)
    else
      code = rarely().move(r, s, q, code, counts and was ~= 'done')
    end
  end
  if not saves and not s.changed then return code end
  r.consumer = s.consumer
  if uncounted and not r.was and code == 'UNCOUNTED' then return code, BINDS end
  return code, code == 'HELD' and max(q.ttl, PAUSED) or q.ttl
end)

-- FAIL: the handler failed. It counts this attempt once, however often and however late it arrives.
--
-- ARGV after the common six:
--   7  wait    ms until the next attempt may begin
--   8  cause   why it failed: failed, panicked, timed-out or rejected
--   9  reason  the same for people
--   10 lasted  ms that the handler ran
--
-- Verdicts:
--   REQUEUE    hold the delivery for the wait, then nack it with requeue (or START it again in place)
--   EXHAUSTED  nack it without requeue. The tombstone is written before this reply, so a lost nack is repeated when the
--              message is redelivered, without running the handler again
--
-- The message may be one of two with the same id if the first attempt at a delivery that is not redelivered fails, and this
-- generation has such a failure already, or had a counted attempt before this delivery arrived. RabbitMQ redelivers some messages
-- without saying so (a classic queue of 4.3 after a restart), and other tools may publish a message again.

local asked, kind, why = tonumber(ARGV[arg + 7]), ARGV[arg + 8], ARGV[arg + 9]

if not known and (state == 'exhausted' or state == 'done') and earlier then -- this is a new use of the id
  failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
  first_at, last_at, cause, reason, open, mode = 0, 0, '.', '', '.', '.'
  limit, grant, notes, history, firsts = base, 0, '', '', 0
  tokens = string.gsub(tokens, '=[fc]', '=e') -- they stay, so that their late steps are not counted here
end

local counts = false
if known == 'c' then -- its process was taken for dead: the same count, now with the true cause
  counts, unnoted = true, token
  crashes = crashes - 1
  tokens = string.sub(tokens, 1, known_at) .. 'f' .. string.sub(tokens, known_at + 2)
elseif not known and state ~= 'exhausted' then
  counts = true
  tokens = tokens .. ';' .. token .. '=f'
  if age >= 0 and state ~= 'done' and firsts < 2 then
    double = firsts == 1 or failures + crashes > 0 and first_at <= now - age
    firsts = double and 2 or 1
  end
end

if counts or open == token then live, indexed = ttl, true end
if counts then
  failures = failures + 1
  if state == 'done' then state = '.' end
  if state ~= 'exhausted' then binds = 0 end
  if first_at == 0 then first_at = now end
  last_at, cause, reason, due, wait = now, kind, why, now + asked, asked
  noted, lasted, noted_by = string.sub(kind, 1, 1), ARGV[arg + 10], holder
end
if open == token then open, mode = '.', '.' end

verdict = 'REQUEUE'
if state == 'exhausted' then
  verdict = 'EXHAUSTED'
elseif state == 'skip' then
  verdict = 'EXHAUSTED'
  live, indexed, exhausts = ttl, true, true
elseif failures + crashes >= limit then -- also if our reply was lost and the limit is lower now
  verdict = 'EXHAUSTED'
  if known ~= 'e' and state == '.' then
    live, indexed, exhausts = ttl, true, true
  end
end

-- FAIL: the handler failed. It counts this attempt once, however often and however late it arrives.
--
-- ARGV after the common six:
--   7  wait    ms until the next attempt may begin
--   8  cause   why it failed: failed, panicked, timed-out or rejected
--   9  reason  the same for people
--
-- Verdicts:
--   REQUEUE    hold the delivery for the wait, then nack it with requeue (or START it again in place)
--   EXHAUSTED  nack it without requeue. The tombstone is written before this reply, so a lost nack is repeated when the
--              message is redelivered, without running the handler again

local asked, kind, why = tonumber(ARGV[arg + 7]), ARGV[arg + 8], ARGV[arg + 9]

if not known and state ~= '.' and earlier then -- this is a new use of the id
  failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
  first_at, last_at, cause, reason, open, mode = 0, 0, '.', '', '.', '.'
  limit, grant, notes = base, 0, ''
  tokens = string.gsub(tokens, '=[fc]', '=e') -- they stay, so that their late steps are not counted here
end

local counts = false
if known == 'c' then -- its process was taken for dead: the same count, now with the true cause
  counts = true
  crashes = crashes - 1
  tokens = string.sub(tokens, 1, known_at) .. 'f' .. string.sub(tokens, known_at + 2)
elseif not known and state ~= 'exhausted' then
  counts = true
  tokens = tokens .. ';' .. token .. '=f'
end

if counts or open == token then live, indexed = ttl, true end
if counts then
  failures = failures + 1
  if state ~= 'exhausted' then state, binds = '.', 0 end -- also after a success
  if first_at == 0 then first_at = now end
  last_at, cause, reason, due, wait = now, kind, why, now + asked, asked
end
if open == token then open, mode = '.', '.' end

verdict = 'REQUEUE'
if state == 'exhausted' then
  verdict = 'EXHAUSTED'
elseif failures + crashes >= limit then -- also if our reply was lost and the limit is lower now
  verdict = 'EXHAUSTED'
  if known ~= 'e' and state == '.' then
    live, indexed, exhausts = ttl, true, true
  end
end

-- FAIL: the handler failed. Charges this attempt once, however often and however late it arrives.
--
-- ARGV beyond the common six:
--   7  wait    ms until the next attempt may begin
--   8  cause   why it failed: failed, panicked, timed-out or rejected
--   9  reason  the same for people, cut by the caller to a bound of its own
--
-- Verdicts:
--   REQUEUE    hold the delivery for the wait, then nack it with requeue (or run it again in place, after START)
--   EXHAUSTED  nack it without requeue. The tombstone is written before this is answered, so a nack that is lost is
--              repeated when the message comes back, without running the handler again.

local asked, kind, why = tonumber(ARGV[arg + 7]), ARGV[arg + 8], ARGV[arg + 9]

if not known and state ~= '.' and earlier then -- a tombstone or a success of an earlier use of this id: history
  failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
  first_at, last_at, cause, reason, marker, mode = 0, 0, '.', '', '.', '.'
  limit, grant, notes = base, 0, ''
  tokens = string.gsub(tokens, '=[fc]', '=e') -- they stay, so that its late steps charge nothing here
end

local charges = false
if known == 'c' then -- taken for dead meanwhile: the same charge, now with its true reason
  charges = true
  crashes = crashes - 1
  tokens = string.sub(tokens, 1, known_at) .. 'f' .. string.sub(tokens, known_at + 2)
elseif not known and state ~= 'exhausted' then
  charges = true
  tokens = tokens .. ';' .. token .. '=f'
end

if charges or marker == token then live, indexed = ttl, true end
if charges then
  failures = failures + 1
  if state ~= 'exhausted' then state, binds = '.', 0 end -- also after a success
  if first_at == 0 then first_at = now end
  last_at, cause, reason, due, wait = now, kind, why, now + asked, asked
end
if marker == token then marker, mode = '.', '.' end

verdict = 'REQUEUE'
if state == 'exhausted' then
  verdict = 'EXHAUSTED'
elseif failures + crashes >= limit then -- also when our reply was lost and the limit is a lower one now
  verdict = 'EXHAUSTED'
  if known ~= 'e' and state == '.' then
    live, indexed, buries = ttl, true, true
  end
end

-- FAIL: the handler failed. Charges this attempt once, however often and however late it arrives.
--
-- ARGV beyond the common seven:
--   8  wait    ms until the next attempt may begin
--   9  reason  why it failed, cut by the caller to a bound of its own
--
-- Verdicts:
--   REQUEUE    hold the delivery for the wait, then nack it with requeue (or run it again in place, after START)
--   EXHAUSTED  nack it without requeue. The tombstone is written before this is answered, so a nack that is lost is
--              repeated when the message comes back, without running the handler again.

local wait, why = tonumber(ARGV[8]), ARGV[9]
local known = kind(token)

if not known and state ~= '' and earlier() then anew() end -- a tombstone or a success of an earlier use of this id

local new = not known and state ~= 'exhausted'
local changes = new or known == 'c' or marker == token
if new then
  failures = failures + 1
elseif known == 'c' then -- taken for dead meanwhile: the same charge, now with its true reason
  crashes, failures = crashes - 1, failures + 1
end
if new or known == 'c' then
  if state == 'done' then state, binds = '', 0 end
  remember(token, 'f')
  charged(why)
  due = now + wait
end
if known ~= 'e' and state == '' and exhausted() then -- also when our reply was lost and the limit is a lower one now
  bury()
  changes = true
end
if marker == token then marker, mode = '', '' end
if changes then save(ttl, true) end

if state == 'exhausted' or exhausted() then return answer('EXHAUSTED') end
return answer('REQUEUE')

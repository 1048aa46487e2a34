-- START: asked before the handler runs when the delivery is redelivered, or for the second and later runs in place.
--
-- ARGV beyond the common seven:
--   8  mode   shared      other handlers may run in this process meanwhile
--             exclusive   nothing else runs in this process until the attempt ends
--             unmarked    do not look for crashes, leave no marker
--
-- Verdicts:
--   RUN        run the handler. Attempt number: failures + crashes + 1. The reply's starts is the fence.
--   WAIT       the backoff of the last failure is not over: wait, then START again with the same token
--   SUSPECT    (shared only) a handler may have died on this message: let nothing else run in this process, then
--              START exclusive with the same token
--   EXHAUSTED  dead-letter it without running the handler
--
-- An open exclusive marker of another attempt is charged as a crash, by START exclusive alone: that process ran
-- nothing else, so nothing else can have killed it. An open shared marker only makes the message a suspect.

local asked = ARGV[8]

if state == 'exhausted' and now < binds and not earlier() then return answer('EXHAUSTED') end
if marker == token then return answer('RUN') end -- our reply was lost
if kind(token) then return answer('RUN') end     -- our own START, arriving after the attempt ended: opens nothing
if state == 'exhausted' or state == 'done' and earlier() then anew() end -- history: this is a new use of the id
if state == 'done' then -- the ack was lost: the old budget, and nothing left open
  state, binds, suspect, marker, mode = '', 0, false, '', ''
end

local dead = asked == 'exclusive' and mode == 'exclusive' and marker ~= ''
if dead then
  crashes = crashes + 1
  remember(marker, 'c')
  charged('process died while it ran this message alone')
  marker, mode = '', ''
end

local verdict = 'RUN'
if exhausted() then
  verdict = 'EXHAUSTED'
  bury()
elseif due > now then
  verdict = 'WAIT'
elseif asked == 'shared' and (suspect or marker ~= '') then
  verdict = 'SUSPECT'
  suspect = true
else
  starts = starts + 1
  if asked ~= 'unmarked' then
    if marker ~= '' then suspect = true end -- it is overwritten, but not forgotten
    marker, mode, since = token, asked, now
  end
end
if exists or verdict == 'RUN' then save(ttl, true) end
return answer(verdict)

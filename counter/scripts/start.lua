-- START: asked before the handler runs when the delivery is redelivered, or for the second and later runs in place.
--
-- ARGV beyond the common six:
--   7  mode   shared      other handlers may run in this process meanwhile
--             exclusive   nothing else runs in this process until the attempt ends
--             beside      the same, but for handlers that were abandoned at their deadline and still run: they may kill
--                         the process too, so this attempt is opened shared
--             unmarked    do not look for crashes, leave no marker
--   8  floor  the fence that the delivery carries; 0: none. The fence of the attempt is greater
--
-- Verdicts:
--   RUN        run the handler. Attempt number: failures + crashes + 1. The reply has the attempt's fence.
--   WAIT       the backoff of the last failure is not over: wait, then START again with the same token
--   SUSPECT    (shared only) a handler may have died on this message: let nothing else run in this process, then
--              START exclusive with the same token
--   EXHAUSTED  dead-letter it without running the handler
--
-- Only START exclusive or beside charges an open exclusive marker of another attempt as a crash: that process ran
-- nothing else, so nothing else can have killed it. An open shared marker only makes the message a suspect.

local asked, floor = ARGV[arg + 7], tonumber(ARGV[arg + 8])
local isolated = asked == 'exclusive' or asked == 'beside'

if state == 'exhausted' and now < binds and not earlier then
  verdict = 'EXHAUSTED'
  binds, live = now + BINDS, ttl -- its dead-lettering may be held again
  indexed = not string.find(notes, LEFT)
elseif marker == token or known then -- our reply was lost; or this arrives after the attempt ended, and opens nothing
  verdict = 'RUN'
else
  if state == 'exhausted' or state == 'done' and earlier then -- history: this is a new use of the id
    failures, crashes, due, wait, suspect, state, binds = 0, 0, 0, 0, '0', '.', 0
    first_at, last_at, cause, reason, marker, mode = 0, 0, '.', '', '.', '.'
    limit, grant, notes = base, 0, ''
    tokens = string.gsub(tokens, '=[fc]', '=e') -- they stay, so that its late steps charge nothing here
  elseif state == 'done' then -- the ack was lost: the old budget, and nothing left open. That it was handled is kept, in binds
    state, suspect, marker, mode = '.', '0', '.', '.'
  end

  if isolated and mode == 'exclusive' then -- it died
    crashes = crashes + 1
    tokens = tokens .. ';' .. marker .. '=c'
    if first_at == 0 then first_at = now end
    last_at, cause, reason = now, 'crashed', 'the process died while it ran this message isolated'
    marker, mode, binds = '.', '.', 0
  end

  if failures + crashes >= limit and binds == 0 then
    verdict = 'EXHAUSTED'
    buries = true
  elseif due > now then
    verdict = 'WAIT'
  elseif asked == 'shared' and (suspect == '1' or marker ~= '.') then
    verdict = 'SUSPECT'
    suspect = '1'
  else
    verdict = 'RUN'
    starts, fence = starts + 1, math.max(fence + 1, floor + 1, micros)
    if asked ~= 'unmarked' then
      if marker ~= '.' then suspect = '1' end -- it is overwritten, but not forgotten
      marker, mode, since = token, asked == 'exclusive' and asked or 'shared', now
    end
  end
  if kept or verdict == 'RUN' then live, indexed = ttl, true end
end
